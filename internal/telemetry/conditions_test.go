package telemetry_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/conditions"
	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/internal/telemetry"
	"github.com/sqlstore/sqlstore/status"
)

// alarmed derives conditions from a store's alarms only.
type alarmed struct {
	*conditions.Monitor
	inputs *conditions.Inputs
}

func newAlarmed(s *store.Store) *alarmed {
	a := &alarmed{inputs: &conditions.Inputs{Generation: 1, InForce: 1, Stage: conditions.Serving, Setup: "all set up"}}
	a.Monitor = conditions.NewMonitor(slog.New(slog.DiscardHandler), func(time.Time) *conditions.Inputs {
		in := *a.inputs
		for _, raised := range s.Alarms() {
			fault := &conditions.Fault{Reason: "AlarmRaised", Message: "disarm it\nsoon"}
			switch raised.Kind {
			case store.AlarmNoSpace:
				in.NoSpace = fault
			case store.AlarmCorrupt:
				in.Corrupt = fault
			}
		}
		return &in
	})
	a.Check()
	return a
}

func (a *alarmed) Conditions() []status.Condition { return a.List() }

func (a *alarmed) StatusContext(ctx context.Context) status.Report {
	return status.Report{
		Name: "n", Version: "1.2.3", EtcdVersion: "3.7.3", Generation: 1, Conditions: a.CheckContext(ctx),
		Datastore: "<sqlite>", Member: "1", Members: 1, Revision: 7, Compaction: &status.Compaction{Mode: "off"},
	}
}

func (a *alarmed) FullStatusContext(ctx context.Context) status.Report {
	r := a.StatusContext(ctx)
	r.Size = &status.Size{Total: 3 << 20, InUse: 2 << 20, Quota: 2 << 30, FreeDisk: new(int64(5 << 30)), Keys: 1234}
	return r
}

func TestConditionsAreExported(t *testing.T) {
	m, s := newServer(t, false)
	from := newAlarmed(s)
	m.WatchConditions(from)
	h := m.Handler(s, "3.7.3", from)
	if err := s.RaiseAlarm(t.Context(), store.Alarm{Kind: store.AlarmNoSpace}); err != nil {
		t.Fatal(err)
	}
	from.inputs.Acknowledged = []string{status.NoPageChecksums, status.BackupStale}
	from.inputs.Bare = &conditions.Fault{Reason: "Off", Message: "none"}
	code, body := request(t, h, http.MethodGet, "/status")
	var r status.Report
	if err := json.Unmarshal([]byte(body), &r); err != nil || code != http.StatusOK {
		t.Fatal(code, body, err)
	}
	if ready := status.Find(r.Conditions, status.Ready); ready == nil || ready.Status != status.False ||
		ready.Reason != status.NoSpace {
		t.Errorf("ready is %+v", ready)
	}
	if code, _ := request(t, h, http.MethodPost, "/status"); code != http.StatusMethodNotAllowed {
		t.Errorf("POST /status: %d", code)
	}
	code, body = request(t, h, http.MethodGet, "/readyz?verbose")
	for _, want := range []string{
		"[+]linearizable_read ok", "[+]Accepted True Accepted: the configuration is valid",
		"[-]Ready False NoSpace: disarm it; soon",
		"[-]NoSpace True AlarmRaised: disarm it; soon", "[~]NoPageChecksums True Off: none",
		"[i]compactor mode=off leads=false compacted=0 purged=0",
	} {
		if code != http.StatusServiceUnavailable || !slices.Contains(strings.Split(body, "\n"), want) {
			t.Errorf("/readyz?verbose: %d without %q:\n%s", code, want, body)
		}
	}
	_, body = request(t, h, http.MethodGet, "/metrics")
	lines := strings.Split(body, "\n")
	for _, want := range []string{
		`sqlstore_condition{status="True",type="Accepted"} 1`, `sqlstore_condition{status="False",type="Accepted"} 0`,
		`sqlstore_condition{status="False",type="Ready"} 1`, `sqlstore_condition{status="True",type="Ready"} 0`,
		`sqlstore_condition{status="True",type="NoSpace"} 1`, `sqlstore_condition{status="Unknown",type="NoSpace"} 0`,
		`sqlstore_condition{status="True",type="CertificateExpiring"} 0`,
		`sqlstore_condition{status="False",type="CertificateExpiring"} 1`,
		`sqlstore_condition{status="True",type="NoPageChecksums"} 1`,
		`sqlstore_condition_acknowledged{type="NoPageChecksums"} 1`,
		`sqlstore_condition_acknowledged{type="BackupStale"} 0`,
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("/metrics without %s", want)
		}
	}
	// A request that excludes a check gets etcd's checks.
	if code, body := request(t, h, http.MethodGet, "/readyz?exclude=NOSPACE"); code != http.StatusOK || body != "ok\n" {
		t.Errorf("/readyz?exclude=NOSPACE: %d %q", code, body)
	}
}

func TestWhileStarting(t *testing.T) {
	m := telemetry.New(telemetry.Config{Version: "3.7.3"})
	_, s := newServer(t, false)
	from := newAlarmed(s)
	from.inputs = &conditions.Inputs{Generation: 1, InForce: 1, Waiting: errors.New("connection refused")}
	from.Check()
	m.WatchConditions(from)
	h := m.StartingHandler("3.7.3", from)
	for path, want := range map[string]struct {
		code int
		part string
	}{
		"/livez": {http.StatusOK, "ok\n"},
		"/readyz": {
			http.StatusServiceUnavailable,
			"[-]Ready False DatabaseUnreachable: the database is not usable yet: connection refused",
		},
		"/readyz?exclude=database": {http.StatusServiceUnavailable, "[-]Ready False"},
		"/readyz/writes":           {http.StatusServiceUnavailable, "see /status"},
		"/v3/kv/range":             {http.StatusServiceUnavailable, "not usable yet: connection refused"},
		"/health":                  {http.StatusServiceUnavailable, `"health":"false"`},
		"/status":                  {http.StatusOK, `"reason": "DatabaseUnreachable"`},
		"/version":                 {http.StatusOK, `"etcdserver":"3.7.3"`},
		"/metrics":                 {http.StatusOK, `sqlstore_condition{status="Unknown",type="Programmed"} 1`},
	} {
		if code, body := request(t, h, http.MethodGet, path); code != want.code || !strings.Contains(body, want.part) {
			t.Errorf("%s: %d %.300q, want %d with %q", path, code, body, want.code, want.part)
		}
	}
}

// stuck is a server whose check does not end.
type stuck struct{ *alarmed }

func (s stuck) StatusContext(ctx context.Context) status.Report {
	<-ctx.Done()
	return s.alarmed.StatusContext(ctx)
}

// A cancelled request does not wait for a check.
func TestCheckEndsWithItsRequest(t *testing.T) {
	m, s := newServer(t, false)
	h := m.Handler(s, "3.7.3", stuck{newAlarmed(s)})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, path := range []string{"/status", "/readyz"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil))
		if !strings.Contains(w.Body.String(), "all set up") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
