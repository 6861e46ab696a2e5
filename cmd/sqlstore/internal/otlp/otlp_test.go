package otlp

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// The rate chooses among requests without a trace; a client's choice is final.
func TestSampler(t *testing.T) {
	client := func(flags trace.TraceFlags) context.Context {
		return trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: flags, Remote: true,
		}))
	}
	for _, rate := range []int{0, Million} {
		p, err := Start(Config{Address: "localhost:1", Service: "s", PerMillion: rate}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Shutdown(context.WithoutCancel(t.Context())) })
		for name, c := range map[string]struct {
			ctx  context.Context
			want bool
		}{
			"no client": {t.Context(), rate > 0}, "unsampled": {client(0), false},
			"sampled": {client(trace.FlagsSampled), true},
		} {
			if _, span := p.Tracer("").Start(c.ctx, name); span.IsRecording() != c.want {
				t.Errorf("rate %d, %s: recorded: %t", rate, name, span.IsRecording())
			}
		}
	}
}

// A collector that is not there is logged, and costs the server nothing else.
func TestNoCollector(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "100") // ms
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")     // ms
	lines := make(records, 10)
	p, err := Start(Config{Address: "127.0.0.1:1", Service: "s", PerMillion: Million}, slog.New(lines))
	if err != nil {
		t.Fatal(err)
	}
	_, span := p.Tracer("").Start(t.Context(), "lost")
	span.End()
	select {
	case line := <-lines:
		if line.Level != slog.LevelWarn || line.Message != "traces are not sent" {
			t.Errorf("logged %v", line)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("nothing is logged")
	}
	if err := p.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// records receives log records.
type records chan slog.Record

func (records) Enabled(context.Context, slog.Level) bool             { return true }
func (r records) Handle(_ context.Context, record slog.Record) error { r <- record; return nil }
func (r records) WithAttrs([]slog.Attr) slog.Handler                 { return r }
func (r records) WithGroup(string) slog.Handler                      { return r }
