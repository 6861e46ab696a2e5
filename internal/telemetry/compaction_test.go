package telemetry_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sqlstore/sqlstore/compactor"
	"github.com/sqlstore/sqlstore/internal/telemetry"
)

func TestCompaction(t *testing.T) {
	s := compactor.State{
		Leads: true, Compacted: 100, Purged: 60, Done: 3, Failed: 2, Last: time.UnixMilli(1500),
		Stall: &compactor.Stall{Reason: compactor.PurgeHeld},
	}
	m := telemetry.New(telemetry.Config{Version: "3.7.3"})
	m.WatchCompaction(func() compactor.State { return s })
	h := promhttp.HandlerFor(m.Registry, promhttp.HandlerOpts{})
	lines := func() []string {
		_, body := request(t, h, http.MethodGet, "/metrics")
		return strings.Split(body, "\n")
	}
	got := lines()
	for _, want := range []string{
		`sqlstore_compaction_automatic_total{result="success"} 3`,
		`sqlstore_compaction_automatic_total{result="failure"} 2`,
		`sqlstore_compaction_revision 100`, `sqlstore_compaction_purged_revision 60`,
		`sqlstore_compaction_backlog_revisions 40`,
		`sqlstore_compaction_stalled{reason="PurgeHeld"} 1`, `sqlstore_compaction_stalled{reason="PurgeFails"} 0`,
		`sqlstore_compaction_last_timestamp_seconds 1.5`, `sqlstore_compaction_next_timestamp_seconds 0`,
		`sqlstore_compaction_leads 1`,
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no %s", want)
		}
	}
	s = compactor.State{Compacted: 100, Purged: -1}
	got = lines()
	for _, name := range []string{"sqlstore_compaction_purged_revision", "sqlstore_compaction_backlog_revisions"} {
		if slices.ContainsFunc(got, func(l string) bool { return strings.HasPrefix(l, name) }) {
			t.Errorf("%s is reported by a compactor that does not know it", name)
		}
	}
	if !slices.Contains(got, `sqlstore_compaction_stalled{reason="PurgeHeld"} 0`) {
		t.Error("still stalled")
	}
}
