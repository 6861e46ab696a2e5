package telemetry

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sqlstore/sqlstore/store"
)

// checkTimeout bounds one health check.
const checkTimeout = 5 * time.Second

// check is one named part of a health endpoint.
type check struct {
	name string
	run  func(context.Context) error
}

// Handler serves /metrics, /health, /livez, /readyz and /version as etcd does. version is the etcd version.
func (m *Metrics) Handler(s *store.Store, version string) *http.ServeMux {
	writes := check{"writes", func(context.Context) error { return s.Err() }}
	reads := check{"linearizable_read", func(ctx context.Context) error {
		_, err := s.Range(ctx, &store.RangeRequest{Key: []byte("health"), KeysOnly: true})
		return err
	}}
	database := check{"database", func(ctx context.Context) error {
		_, err := s.Status(ctx)
		return err
	}}
	corrupt := check{"data_corruption", func(context.Context) error { return alarmed(s, store.AlarmCorrupt) }}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.Registry, promhttp.HandlerOpts{Registry: m.Registry}))
	mux.HandleFunc("GET /livez", m.checks(writes))
	mux.HandleFunc("GET /readyz", m.checks(writes, database, reads, corrupt))
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) { m.health(w, r, s, writes, database, reads) })
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]string{"etcdserver": version, "etcdcluster": minor(version) + ".0", "storage": minor(version) + ".0"})
	})
	return mux
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client has gone
}

func alarmed(s *store.Store, kinds ...store.AlarmKind) error {
	for _, a := range s.Alarms() {
		if slices.Contains(kinds, a.Kind) {
			return fmt.Errorf("ALARM %s", map[store.AlarmKind]string{store.AlarmNoSpace: "NOSPACE", store.AlarmCorrupt: "CORRUPT"}[a.Kind])
		}
	}
	return nil
}

// health answers in etcd's older form; ?exclude=NOSPACE ignores that alarm.
func (m *Metrics) health(w http.ResponseWriter, r *http.Request, s *store.Store, checks ...check) {
	ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
	defer cancel()
	kinds := []store.AlarmKind{store.AlarmNoSpace, store.AlarmCorrupt}
	for _, name := range r.URL.Query()["exclude"] {
		switch name {
		case "NOSPACE":
			kinds = slices.DeleteFunc(kinds, func(k store.AlarmKind) bool { return k == store.AlarmNoSpace })
		case "CORRUPT":
			kinds = slices.DeleteFunc(kinds, func(k store.AlarmKind) bool { return k == store.AlarmCorrupt })
		}
	}
	err := alarmed(s, kinds...)
	for _, c := range checks {
		if err == nil {
			err = c.run(ctx)
		}
	}
	if err != nil {
		m.healthFail.Inc()
		answer(w, http.StatusServiceUnavailable, map[string]string{"health": "false", "reason": err.Error()})
		return
	}
	m.healthTrue.Inc()
	answer(w, http.StatusOK, map[string]string{"health": "true", "reason": ""})
}

// checks answers 200 or 503; ?verbose lists each check, ?exclude=name leaves one out.
func (m *Metrics) checks(all ...check) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
		defer cancel()
		excluded := r.URL.Query()["exclude"]
		var report strings.Builder
		code := http.StatusOK
		for _, c := range all {
			if slices.Contains(excluded, c.name) {
				fmt.Fprintf(&report, "[+]%s excluded: ok\n", c.name)
				continue
			}
			if err := c.run(ctx); err != nil {
				code = http.StatusServiceUnavailable
				fmt.Fprintf(&report, "[-]%s failed: %v\n", c.name, err)
				continue
			}
			fmt.Fprintf(&report, "[+]%s ok\n", c.name)
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(code)
		switch {
		case code != http.StatusOK || r.URL.Query().Has("verbose"):
			fmt.Fprint(w, report.String())
		default:
			fmt.Fprintln(w, "ok")
		}
	}
}
