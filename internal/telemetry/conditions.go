package telemetry

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sqlstore/sqlstore/status"
)

// Conditions provides a server's conditions.
type Conditions interface {
	// StatusContext checks now; if ctx ends before the check does, it returns the previous result.
	StatusContext(ctx context.Context) status.Report
	// FullStatusContext is StatusContext with the database's size, for which it asks the database.
	FullStatusContext(ctx context.Context) status.Report
	// Conditions are those of the last check, at most about a second ago.
	Conditions() []status.Condition
}

// conditionGauges exports conditions like kube-state-metrics does for Kubernetes' objects: 1 for the status that a
// condition has, 0 for the two others. An absent negative condition counts as False.
type conditionGauges struct {
	from                 Conditions
	desc, acknowledgment *prometheus.Desc
}

// WatchConditions adds the conditions.
func (m *Metrics) WatchConditions(from Conditions) {
	m.Registry.MustRegister(&conditionGauges{
		from,
		prometheus.NewDesc("sqlstore_condition", "1 for the status that a condition has, as in /status.",
			[]string{"type", "status"}, nil),
		prometheus.NewDesc("sqlstore_condition_acknowledged",
			"1 while a condition is True and acknowledged, so that no alert is needed.", []string{"type"}, nil),
	})
}

// Describe implements [prometheus.Collector].
func (g *conditionGauges) Describe(out chan<- *prometheus.Desc) {
	out <- g.desc
	out <- g.acknowledgment
}

// Collect implements [prometheus.Collector].
func (g *conditionGauges) Collect(out chan<- prometheus.Metric) {
	all := g.from.Conditions()
	collect := func(kind string, absent string) {
		has := absent
		if c := status.Find(all, kind); c != nil {
			has = c.Status
		}
		for _, s := range []string{status.True, status.False, status.Unknown} {
			out <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, bit(s == has), kind, s)
		}
	}
	for _, kind := range status.Positive {
		collect(kind, status.Unknown)
	}
	for _, kind := range status.Negative {
		collect(kind, status.False)
	}
	for _, kind := range status.Acknowledgeable {
		c := status.Find(all, kind)
		out <- prometheus.MustNewConstMetric(g.acknowledgment, prometheus.GaugeValue,
			bit(c != nil && c.Acknowledged), kind)
	}
}

// handleStatus serves /status: a [status.Report] as JSON.
func handleStatus(mux *http.ServeMux, from Conditions) {
	get(mux, "/status", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
		defer cancel()
		writeJSON(w, from.FullStatusContext(ctx))
	})
}

// writeJSON answers with a value of this moment.
func writeJSON(w http.ResponseWriter, value any) {
	body, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	write(w, string(body)+"\n")
}

// lines formats the conditions and the compactor's state for ?verbose.
func lines(r *status.Report) string {
	var out strings.Builder
	for i := range r.Conditions {
		c := &r.Conditions[i]
		fmt.Fprintf(&out, "[%s]%s %s %s: %s\n", c.Mark(), c.Type, c.Status, c.Reason, oneLine(c.Message))
	}
	if r.Compaction != nil {
		fmt.Fprintf(&out, "[i]compactor %s\n", r.Compaction)
	}
	return out.String()
}

func oneLine(s string) string { return strings.ReplaceAll(s, "\n", "; ") }

// StartingHandler serves what is available before the database is open: /livez and a serializable /health are good,
// /readyz and the plain /health are not, /status and /metrics show why.
func (m *Metrics) StartingHandler(version string, from Conditions) *http.ServeMux {
	mux := http.NewServeMux()
	m.handleCommon(mux, version, nil, from)
	m.handleChecks(mux, "livez", nil)
	m.handleReady(mux, nil, from)
	get(mux, "/health", func(w http.ResponseWriter, r *http.Request) {
		if serializableOnly(r) {
			m.healthy(w)
			return
		}
		m.health.failures.Inc()
		http.Error(w, `{"health":"false","reason":"the server is starting"}`, http.StatusServiceUnavailable)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 1 {
			w.Header().Set("Connection", "close") // otherwise net/http would wait for the body
		}
		why := status.Find(from.Conditions(), status.Ready).Message
		http.Error(w, why+" (see /status)", http.StatusServiceUnavailable)
	})
	return mux
}
