package telemetry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/status"
)

// checkTimeout limits one request to a health endpoint.
const checkTimeout = 5 * time.Second

// check is one named part of a health endpoint.
type check struct {
	name string
	run  func(context.Context) error
}

type healthMetrics struct {
	success, failures prometheus.Counter // of /health
	last              *prometheus.GaugeVec
	total             *prometheus.CounterVec
}

func newHealthMetrics(m *Metrics) healthMetrics {
	h := healthMetrics{
		success:  m.counter("etcd_server_health_success", "Successful answers of /health."),
		failures: m.counter("etcd_server_health_failures", "Failures of /health."),
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "etcd_server_healthcheck", Help: "The last result of each check: 1 is good.",
		}, []string{"type", "name"}),
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "etcd_server_healthchecks_total", Help: "Results of each check.",
		}, []string{"type", "name", "status"}),
	}
	m.Registry.MustRegister(h.last, h.total)
	return h
}

// Handler serves /metrics, /health, /livez, /readyz and /version like etcd, with etcd's names for checks where it has
// them, and /status. version is the etcd version.
func (m *Metrics) Handler(s *store.Store, version string, from Conditions) *http.ServeMux {
	read := func(ctx context.Context, serializable bool) error {
		_, err := s.Range(auth.With(ctx, auth.Server), &store.RangeRequest{
			Key: []byte("health"), KeysOnly: true, Serializable: serializable,
		})
		return err
	}
	var (
		writes = check{"writes", func(context.Context) error { return cmp.Or(s.Err(), s.Refused()) }}
		// A database that only refuses writes can still be read, and a restart may lose what it holds.
		alive        = check{"writes", func(context.Context) error { return s.Err() }}
		serializable = check{"serializable_read", func(ctx context.Context) error { return read(ctx, true) }}
		linearizable = check{"linearizable_read", func(ctx context.Context) error { return read(ctx, false) }}
		corruption   = check{"data_corruption", func(context.Context) error { return alarmed(s, store.AlarmCorrupt) }}
		database     = check{"database", func(ctx context.Context) error {
			_, err := s.Status(ctx)
			return err
		}}
		learner = check{"non_learner", func(context.Context) error { return nil }} // there are no learners
	)
	live, ready, health := []check{serializable, alive}, []check{
		serializable, linearizable, corruption, learner,
		writes, database,
	},
		[]check{writes, linearizable, database}
	if s.NoLeader() != nil {
		// A networked database may hang, but a probe must not, and ending this process would not help. Each heartbeat
		// is a write awaited in the background. The read check runs only under its own path.
		database.run = func(context.Context) error { return reachable(s) }
		live, ready, health = []check{alive}, []check{database, corruption, learner, writes}, []check{database, writes}
	}
	mux := http.NewServeMux()
	m.handleCommon(mux, version, s, from)
	m.handleChecks(mux, "livez", live, serializable, alive)
	m.handleReady(mux, ready, from, serializable, linearizable, corruption, learner, writes, database)
	get(mux, "/health", func(w http.ResponseWriter, r *http.Request) {
		if serializableOnly(r) {
			m.handleHealth(w, r, s, live...)
			return
		}
		m.handleHealth(w, r, s, health...)
	})
	handleRevision(mux, s)
	return mux
}

// handleCommon serves what needs no store. s is nil while the server starts.
func (m *Metrics) handleCommon(mux *http.ServeMux, version string, s *store.Store, from Conditions) {
	mux.Handle("/metrics", promhttp.InstrumentMetricHandler(m.Registry,
		promhttp.HandlerFor(m.Registry, promhttp.HandlerOpts{EnableOpenMetrics: m.tracer != nil})))
	handleStatus(mux, from)
	handlePage(mux, from, m.console)
	get(mux, "/debug/vars", vars(s))
	versions := fmt.Sprintf(`{"etcdserver":%q,"etcdcluster":"%[2]s.0","storage":"%[2]s.0"}`, version, minor(version))
	get(mux, "/version", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		write(w, versions)
	})
}

// get serves path for GET only. It also refuses HEAD, as etcd does.
func get(mux *http.ServeMux, path string, h http.HandlerFunc) {
	mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.Header().Set("Allow", http.MethodGet)
			http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
			return
		}
		h(w, r)
	})
}

// write sends the body of an answer; an error means that the client has disconnected.
func write(w http.ResponseWriter, body string) { _, _ = w.Write([]byte(body)) }

// alarmError is a raised alarm. As in etcd, /readyz shows this text, and /health another.
type alarmError struct{ kind store.AlarmKind }

func (e alarmError) Error() string { return "alarm activated: " + alarmNames[e.kind] }

// alarmed returns an [alarmError] if an alarm of one of these kinds is raised.
func alarmed(s *store.Store, kinds ...store.AlarmKind) error {
	for _, a := range s.Alarms() {
		if slices.Contains(kinds, a.Kind) {
			return alarmError{a.Kind}
		}
	}
	return nil
}

var alarmNames = map[store.AlarmKind]string{store.AlarmNoSpace: "NOSPACE", store.AlarmCorrupt: "CORRUPT"}

// serializableOnly reports whether a request for /health asks, as in etcd, whether this process serves, and not whether
// it serves the newest data. Liveness probes do, and a restart would not bring a database back.
func serializableOnly(r *http.Request) bool { return r.URL.Query().Get("serializable") == "true" }

// handleHealth answers in etcd's older form; ?exclude=NOSPACE ignores that alarm.
func (m *Metrics) handleHealth(w http.ResponseWriter, r *http.Request, s *store.Store, checks ...check) {
	ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
	defer cancel()
	var kinds []store.AlarmKind
	for kind, name := range alarmNames {
		if !slices.Contains(r.URL.Query()["exclude"], name) {
			kinds = append(kinds, kind)
		}
	}
	err := alarmed(s, kinds...)
	for _, c := range checks {
		if err == nil {
			err = c.run(ctx)
		}
	}
	if err == nil {
		m.healthy(w)
		return
	}
	m.health.failures.Inc()
	reason := err.Error()
	if alarm, ok := errors.AsType[alarmError](err); ok {
		reason = "ALARM " + alarmNames[alarm.kind]
	}
	body, _ := json.Marshal(map[string]string{"health": "false", "reason": reason}) // strings always marshal
	http.Error(w, string(body), http.StatusServiceUnavailable)
}

// healthy answers that the server is healthy, as plain text, as in etcd.
func (m *Metrics) healthy(w http.ResponseWriter) {
	m.health.success.Inc()
	write(w, `{"health":"true","reason":""}`)
}

// errOutOfReach is returned while a replica's database does not answer.
var errOutOfReach = errors.New("the database has accepted no heartbeat from this replica for five seconds")

// reachable returns errOutOfReach while the store has no leader.
func reachable(s *store.Store) error {
	select {
	case <-s.NoLeader():
		return errOutOfReach
	default:
		return nil
	}
}

// handleChecks serves /kind, which is good if the usual checks are, and /kind/name for each of all.
func (m *Metrics) handleChecks(mux *http.ServeMux, kind string, usual []check, all ...check) {
	get(mux, "/"+kind, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
		defer cancel()
		answer(w, r, m.runChecks(ctx, r, kind, usual))
	})
	m.handleEach(mux, kind, all)
}

func (m *Metrics) handleEach(mux *http.ServeMux, kind string, all []check) {
	for _, c := range all {
		get(mux, "/"+kind+"/"+c.name, func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
			defer cancel()
			answer(w, r, m.runChecks(ctx, r, kind, []check{c}))
		})
	}
}

// handleReady serves /readyz, which is good if the Ready condition is True, and /readyz/name. A request that excludes a
// check gets etcd's checks only: conditions do not count then, nor with [Config].EtcdReady.
func (m *Metrics) handleReady(mux *http.ServeMux, usual []check, from Conditions, all ...check) {
	get(mux, "/readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
		defer cancel()
		o := m.runChecks(ctx, r, "readyz", usual)
		if usual == nil || !m.etcdReady && !r.URL.Query().Has("exclude") {
			report := from.StatusContext(ctx)
			// Both check the same things. A check that fails in between counts, too.
			o.failed = o.failed || !status.IsTrue(report.Conditions, status.Ready)
			o.report += lines(&report)
		}
		answer(w, r, o)
	})
	m.handleEach(mux, "readyz", all)
}

// outcome is the result of the checks.
type outcome struct {
	report string // a line for each
	failed bool
}

// runChecks runs the checks except those that ?exclude=name names.
func (m *Metrics) runChecks(ctx context.Context, r *http.Request, kind string, checks []check) (o outcome) {
	var report strings.Builder
	for _, c := range checks {
		if slices.Contains(r.URL.Query()["exclude"], c.name) {
			continue
		}
		result := "success"
		if err := c.run(ctx); err != nil {
			o.failed, result = true, "error"
			fmt.Fprintf(&report, "[-]%s failed: %v\n", c.name, err)
		} else {
			fmt.Fprintf(&report, "[+]%s ok\n", c.name)
		}
		m.health.last.WithLabelValues(kind, c.name).Set(bit(result == "success"))
		m.health.total.WithLabelValues(kind, c.name, result).Inc()
	}
	o.report = report.String()
	return o
}

// answer sends 200 or 503 as etcd does. A failure, or ?verbose, lists all checks.
func answer(w http.ResponseWriter, r *http.Request, o outcome) {
	if o.failed {
		http.Error(w, o.report, http.StatusServiceUnavailable)
		return
	}
	if !r.URL.Query().Has("verbose") {
		o.report = ""
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	write(w, o.report+"ok\n")
}
