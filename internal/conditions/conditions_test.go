package conditions_test

import (
	"context"
	"encoding/json"
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

// brief is a condition as the tables write it.
func brief(c status.Condition) string { return c.Type + " " + c.Status + " " + c.Reason }

func briefs(all []status.Condition) (out []string) {
	for _, c := range all {
		out = append(out, brief(c))
	}
	return out
}

func fault(reason string) *conditions.Fault {
	return &conditions.Fault{Reason: reason, Message: "do something about it"}
}

func TestInputsAreJudged(t *testing.T) {
	serving := func(change func(*conditions.Inputs)) *conditions.Inputs {
		in := &conditions.Inputs{Generation: 1, InForce: 1, Stage: conditions.Serving, Setup: "all is set up"}
		change(in)
		return in
	}
	const accepted, resolved, programmed, ready = "Accepted True Accepted", "ResolvedRefs True ResolvedRefs",
		"Programmed True Programmed", "Ready True Ready"
	refused := errors.New("connection refused")
	for name, c := range map[string]struct {
		inputs *conditions.Inputs
		want   []string
	}{
		"all well": {serving(func(*conditions.Inputs) {}), []string{accepted, resolved, programmed, ready}},
		"just begun": {
			&conditions.Inputs{Generation: 1, InForce: 1},
			[]string{accepted, "ResolvedRefs Unknown Pending", "Programmed Unknown Pending", "Ready False Starting"},
		},
		"waiting": {
			&conditions.Inputs{Generation: 1, InForce: 1, Waiting: refused},
			[]string{
				accepted, "ResolvedRefs False DatabaseUnreachable", "Programmed Unknown Pending",
				"Ready False DatabaseUnreachable",
				"DatabaseUnavailable True DatabaseUnreachable",
			},
		},
		"stopped before the start was done": {
			&conditions.Inputs{Generation: 1, InForce: 1, Stage: conditions.Stopping},
			[]string{accepted, "ResolvedRefs Unknown Pending", "Programmed Unknown Pending", "Ready False Stopping"},
		},
		"stopping with a full database": {
			serving(func(in *conditions.Inputs) { in.Stage, in.NoSpace = conditions.Stopping, fault("QuotaExceeded") }),
			[]string{accepted, resolved, programmed, "Ready False Stopping", "NoSpace True QuotaExceeded"},
		},
		"a reload that is refused": {
			serving(func(in *conditions.Inputs) { in.Generation, in.Refused = 2, fault("Invalid") }),
			[]string{"Accepted False Invalid", resolved, programmed, ready},
		},
		"a file that has gone": {
			serving(func(in *conditions.Inputs) { in.Missing = fault("CertificateUnreadable") }),
			[]string{accepted, "ResolvedRefs False CertificateUnreadable", programmed, ready},
		},
		"a database that does not answer": {
			serving(func(in *conditions.Inputs) {
				in.Database, in.Lagging = fault("NoHeartbeat"),
					fault("TailBehind")
			}),
			[]string{
				accepted, resolved, programmed, "Ready False DatabaseUnavailable",
				"DatabaseUnavailable True NoHeartbeat", "WatchLagging True TailBehind",
			},
		},
		"a database server that refuses connections": {
			serving(func(in *conditions.Inputs) { in.Full = fault("TooManyConnections") }),
			[]string{accepted, resolved, programmed, ready, "ConnectionsRefused True TooManyConnections"},
		},
		"writes that have stopped": {
			serving(func(in *conditions.Inputs) { in.Stopped = fault("WritesStopped") }),
			[]string{
				accepted, resolved, programmed, "Ready False WritesStopped",
				"DatabaseUnavailable True WritesStopped",
			},
		},
		"a database that may lose what it acknowledges": {
			serving(func(in *conditions.Inputs) {
				in.Weak, in.NoSpace = fault("WeakSettings"),
					fault("QuotaExceeded")
			}),
			[]string{
				accepted, resolved, programmed, "Ready False NotDurable", "NotDurable True WeakSettings",
				"NoSpace True QuotaExceeded",
			},
		},
		"a database that is not verified yet": {
			serving(func(in *conditions.Inputs) { in.Unverified = true }),
			[]string{accepted, resolved, programmed, "Ready False Verifying"},
		},
		"corrupt and full": {
			serving(func(in *conditions.Inputs) {
				in.Corrupt, in.NoSpace = fault("AlarmRaised"),
					fault("QuotaExceeded")
			}),
			[]string{
				accepted, resolved, programmed, "Ready False Corrupt", "NoSpace True QuotaExceeded",
				"Corrupt True AlarmRaised",
			},
		},
		"problems that do not affect service": {
			serving(func(in *conditions.Inputs) {
				in.Expiring, in.Lagging, in.Stalled = fault("NearEnd"), fault("SlowWatches"), fault("HeldBack")
				in.Bare = fault("DataChecksumsOff")
			}),
			[]string{
				accepted, resolved, programmed, ready, "NoPageChecksums True DataChecksumsOff",
				"CompactionStalled True HeldBack",
				"WatchLagging True SlowWatches", "CertificateExpiring True NearEnd",
			},
		},
	} {
		all := c.inputs.Conditions()
		if got := briefs(all); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
		for i := range all {
			want := c.inputs.InForce
			if all[i].Type == status.Accepted {
				want = c.inputs.Generation
			}
			if all[i].ObservedGeneration != want {
				t.Errorf("%s: %s has generation %d, want %d", name, all[i].Type, all[i].ObservedGeneration, want)
			}
			if all[i].Message == "" {
				t.Errorf("%s: %s has no message", name, all[i].Type)
			}
		}
	}
}

// A transition is a change of the status, not of the reason, the message or the generation.
func TestTransitionTimes(t *testing.T) {
	var s conditions.Set
	at := func(second int) time.Time { return time.Date(2026, 1, 2, 3, 4, second, 500, time.FixedZone("x", 3600)) }
	ready := func(value string, reason string, generation int64) status.Condition {
		return status.Condition{
			Type: status.Ready, Status: value, Reason: reason,
			ObservedGeneration: generation,
		}
	}
	full := status.Condition{Type: status.NoSpace, Status: status.True, Reason: "QuotaExceeded"}
	since := func(kind string, second int) {
		t.Helper()
		c := status.Find(s.List(), kind)
		if want := at(second).UTC().Truncate(time.Second); c == nil || !c.LastTransitionTime.Equal(want) {
			t.Errorf("%+v, want it since %s", c, want)
		}
	}
	changed := func(second int, want []string, all ...status.Condition) {
		t.Helper()
		if got := briefs(s.Replace(at(second), all)); !slices.Equal(got, want) {
			t.Errorf("second %d: changed %q, want %q", second, got, want)
		}
	}
	changed(1, []string{"Ready False Starting"}, ready(status.False, "Starting", 1))
	changed(2, []string{"Ready True Ready"}, ready(status.True, "Ready", 1))
	changed(3, nil, ready(status.True, "Other", 2))
	since(status.Ready, 2)
	if c := status.Find(s.List(), status.Ready); c.Reason != "Other" || c.ObservedGeneration != 2 {
		t.Errorf("%+v, want the new reason and generation", c)
	}
	changed(4, []string{"Ready False NoSpace", "NoSpace True QuotaExceeded"}, ready(status.False, "NoSpace", 2),
		full)
	changed(5, nil, ready(status.False, "Corrupt", 2), full)
	since(status.Ready, 4)
	since(status.NoSpace, 4)
	changed(6, []string{"Ready Unknown Pending"}, ready(status.Unknown, "Pending", 2), full)
	changed(7, []string{"NoSpace False QuotaExceeded"}, ready(status.Unknown, "Pending", 2))
	if status.Find(s.List(), status.NoSpace) != nil {
		t.Error("a negative condition stays when it is over")
	}
	changed(8, []string{"NoSpace True QuotaExceeded"}, ready(status.Unknown, "Pending", 2), full)
	since(status.NoSpace, 8)
	since(status.Ready, 6)
}

func TestMonitorChecksEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		fullFrom, fullUntil := began.Add(10*time.Second+time.Millisecond), began.Add(20*time.Second+time.Millisecond)
		checks := 0
		m := conditions.NewMonitor(slog.New(slog.DiscardHandler), func(now time.Time) *conditions.Inputs {
			checks++
			in := &conditions.Inputs{Generation: 1, InForce: 1, Stage: conditions.Serving, Setup: "x"}
			if now.After(fullFrom) && now.Before(fullUntil) {
				in.NoSpace = fault("QuotaExceeded")
			}
			return in
		})
		m.Check()
		ctx, cancel := context.WithCancel(t.Context())
		go m.Run(ctx)
		ready := func(after time.Duration, want string, since time.Duration) {
			t.Helper()
			<-time.After(after - time.Since(began))
			synctest.Wait()
			c := status.Find(m.List(), status.Ready)
			if c.Status != want || !c.LastTransitionTime.Equal(began.Add(since).UTC().Truncate(time.Second)) {
				t.Errorf("after %s: %+v, want %s since %s", after, c, want, since)
			}
		}
		ready(10500*time.Millisecond, status.True, 0)
		ready(12500*time.Millisecond, status.False, 11*time.Second)
		ready(30500*time.Millisecond, status.True, 21*time.Second)
		cancel()
		synctest.Wait()
		if checks != 31 {
			t.Errorf("%d checks in 30 s", checks)
		}
	})
}

// The names in JSON are those of metav1.Condition, and the time is written as metav1.Time is.
func TestJSON(t *testing.T) {
	var s conditions.Set
	s.Replace(time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), []status.Condition{
		{Type: status.Ready, Status: status.True, ObservedGeneration: 3, Reason: "Ready", Message: "m"},
	})
	got, err := json.Marshal(s.List()[0])
	const want = `{"type":"Ready","status":"True","observedGeneration":3,` +
		`"lastTransitionTime":"2026-01-02T03:04:05Z","reason":"Ready","message":"m"}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}
