package sqlite

import (
	"path/filepath"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/backendtest"
)

// A commit has spans of the rows, of the COMMIT and of the sync in it; a read has one.
func TestTraced(t *testing.T) {
	got := map[string]sdk.ReadOnlySpan{}
	for _, s := range backendtest.Traced(t, func(p trace.TracerProvider) backend.Backend {
		b, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "t.db"), TracerProvider: p})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		return b
	}) {
		got[s.Name()] = s
	}
	for name, parent := range map[string]string{
		"begin a write": "request", "write rows": "request", "COMMIT": "request", "sync": "COMMIT",
		"read a range": "request",
	} {
		s, in := got[name], got[parent]
		if s == nil || in == nil {
			t.Fatalf("no span %q or %q", name, parent)
		}
		if s.Parent().SpanID() != in.SpanContext().SpanID() || s.StartTime().Before(in.StartTime()) ||
			s.EndTime().After(in.EndTime()) {
			t.Errorf("%q from %v to %v is not within %q from %v to %v", name, s.StartTime(), s.EndTime(), parent,
				in.StartTime(), in.EndTime())
		}
	}
	if len(got) != 6 {
		t.Errorf("spans %v", got)
	}
}
