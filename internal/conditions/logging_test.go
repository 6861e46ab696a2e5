package conditions_test

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sqlstore/sqlstore/internal/conditions"
	"github.com/sqlstore/sqlstore/status"
)

// A condition that becomes bad is logged as a warning or an error, and its end does not read like another failure.
func TestChangesAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			},
		}))
		now := conditions.Inputs{Generation: 1, InForce: 1}
		m := conditions.NewMonitor(log, func(time.Time) *conditions.Inputs { in := now; return &in })
		check := func(want ...string) {
			t.Helper()
			out.Reset()
			m.Check()
			got := slices.Collect(strings.Lines(out.String()))
			for i := range got {
				got[i] = strings.TrimSpace(got[i])
			}
			if !slices.Equal(got, want) {
				t.Errorf("logged:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			time.Sleep(3 * time.Second)
		}
		check()
		now.Waiting = errors.New("x")
		check() // at level debug: the start logs it
		now.Waiting, now.Stage, now.Setup = nil, conditions.Serving, "all"
		check(
			`level=INFO msg="condition recovered" type=DatabaseUnavailable status=False ` +
				`was=DatabaseUnreachable after=3s`,
		)
		now.NoSpace, now.Lagging = &conditions.Fault{Reason: "DiskFull", Message: "no room"}, &conditions.Fault{
			Reason: "Slow", Message: "behind",
		}
		check(
			`level=WARN msg="condition failing" type=Ready status=False reason=NoSpace`,
			`level=ERROR msg="condition failing" type=NoSpace status=True reason=DiskFull message="no room"`,
			`level=WARN msg="condition failing" type=WatchLagging status=True reason=Slow message=behind`,
		)
		now.NoSpace, now.Lagging = nil, nil
		check(
			`level=INFO msg="condition recovered" type=Ready status=True was=NoSpace after=3s`,
			`level=INFO msg="condition recovered" type=NoSpace status=False was=DiskFull after=3s`,
			`level=INFO msg="condition recovered" type=WatchLagging status=False was=Slow after=3s`,
		)
		now.Acknowledged = []string{status.BackupStale}
		now.Lagging = &conditions.Fault{Reason: "Slow", Message: "behind"}
		now.Backup = &conditions.Fault{Reason: "Old", Message: "late"}
		check(
			`level=WARN msg="condition failing" type=WatchLagging status=True reason=Slow message=behind`,
			`level=INFO msg="condition failing, as acknowledged" type=BackupStale status=True reason=Old message=late`,
		)
		now.Lagging, now.Backup = nil, nil
		check(
			`level=INFO msg="condition recovered" type=WatchLagging status=False was=Slow after=3s`,
			`level=INFO msg="condition recovered" type=BackupStale status=False was=Old after=3s`,
		)
		now.Stage = conditions.Stopping
		check() // whoever stops the server logs it
	})
}

// A server that stops while something is wrong does not check it any more, and claims no recovery.
func TestStopIsNoRecovery(t *testing.T) {
	broken := &conditions.Fault{Reason: "Broken", Message: "broken"}
	for name, before := range map[string]conditions.Inputs{
		"serving": {
			Stage: conditions.Serving, Setup: "all", Stopped: broken, Database: broken, Weak: broken, NoSpace: broken,
			Corrupt: broken, Bare: broken, Stalled: broken, Stuck: broken, Lagging: broken, Expiring: broken,
			Audit: broken, Backup: broken, Missing: broken, Unverified: true,
		},
		"starting": {Waiting: errors.New("x")},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			now := before
			m := conditions.NewMonitor(slog.New(slog.NewTextHandler(&out, nil)),
				func(time.Time) *conditions.Inputs { in := now; return &in })
			bad := len(m.Check())
			now = conditions.Inputs{Stage: conditions.Stopping, Setup: before.Setup, Waiting: before.Waiting}
			for range 2 {
				if all := m.Check(); len(all) != bad || status.Find(all, status.DatabaseUnavailable) == nil {
					t.Errorf("while stopping: %+v", all)
				}
			}
			if ready := status.Find(m.List(), status.Ready); ready.Reason != conditions.ReasonStopping {
				t.Errorf("%+v", ready)
			}
			if text := out.String(); strings.Contains(text, "recovered") || strings.Contains(text, "holds") {
				t.Errorf("logged:\n%s", text)
			}
		})
	}
}
