package postgres

import (
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/backendtest"
	"github.com/sqlstore/sqlstore/internal/tracing"
)

// Each statement of a write and of a read has a span with its rows.
func TestTraced(t *testing.T) {
	rows, names := map[string]int64{}, map[string]int{}
	for _, s := range backendtest.Traced(t, func(p trace.TracerProvider) backend.Backend {
		return openTest(t, Config{DSN: database(t), TracerProvider: p})
	}) {
		names[s.Name()]++
		for _, a := range s.Attributes() {
			if a.Key == tracing.Rows {
				rows[s.Name()] = a.Value.AsInt64()
			}
		}
	}
	for name, want := range map[string]int64{
		"SELECT clock FOR UPDATE": 1, "INSERT object_versions": 2, "UPDATE clock": 1, "COMMIT": 0,
		"SELECT object_versions": 2,
	} {
		if n, ok := rows[name]; !ok || n != want {
			t.Errorf("%q has %d rows, want %d; spans %v", name, n, want, names)
		}
	}
	if names["round trip"] != 2 {
		t.Errorf("a write takes two round trips; spans %v", names)
	}
}

func TestSummary(t *testing.T) {
	for sql, want := range map[string]string{
		beginSQL: "BEGIN", "COMMIT": "COMMIT", insertRows: "INSERT object_versions", moveClock: "UPDATE clock",
		raiseEpoch: "UPDATE clock", setAuth: "UPDATE auth",
		insertLeases: "INSERT leases", deleteAlarms: "DELETE alarms", readClock: "SELECT clock",
		listSQL[bounded][0]: "SELECT object_versions", newest(bounded): "SELECT object_versions",
		lockLeases: "SELECT leases FOR UPDATE", "SELECT set_config('a', 'b', true)": "SELECT set_config",
		"SELECT 1": "SELECT",
	} {
		if got := summary(sql); got != want {
			t.Errorf("%q is named %q, want %q", sql, got, want)
		}
	}
}
