package traces

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/metadata"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
	"github.com/sqlstore/sqlstore/test/traces/collector"
)

// The client's trace, and its span that calls the server.
const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	spanID  = "b7ad6b7169203331"
)

// databases are what the server may store in: the flags, and the statements of a put that a trace must show.
var databases = map[string]struct {
	flags      func(tb testing.TB) []string
	statements []string // and below which span
}{
	"sqlite": {
		func(testing.TB) []string { return nil },
		[]string{"batch/begin a write", "batch/write rows", "batch/COMMIT", "COMMIT/sync"},
	},
	"postgres": {
		func(tb testing.TB) []string { return []string{"--datastore", pgserver.Database(tb)} },
		[]string{
			"batch/round trip", "round trip/SELECT clock FOR UPDATE", "round trip/INSERT object_versions",
			"round trip/UPDATE clock", "round trip/COMMIT",
		},
	},
}

// One trace goes from the client's span through the call, the wait for a batch and the batch to each statement.
func TestOneTrace(t *testing.T) {
	for name, database := range databases {
		t.Run(name, func(t *testing.T) {
			c := collector.Start(t)
			server := launch.Start(t, launch.Config{
				Objects: true,
				Args: append(database.flags(t), "--enable-distributed-tracing",
					"--distributed-tracing-address", c.Address,
					"--distributed-tracing-service-name", "store", "--distributed-tracing-instance-id", "one"),
			})
			client := connect(t, server)
			if _, err := client.Put(t.Context(), "untraced", "v"); err != nil {
				t.Fatal(err)
			}
			if _, err := client.Put(within(t, false), "unsampled", "v"); err != nil {
				t.Fatal(err)
			}
			put, err := client.Put(within(t, true), "secret-key", "secret-value")
			if err != nil {
				t.Fatal(err)
			}
			get, err := client.Get(within(t, true), "secret", clientv3.WithPrefix(),
				clientv3.WithRev(put.Header.Revision))
			if err != nil || len(get.Kvs) != 1 {
				t.Fatal(get, err)
			}
			list(t, server)
			if err := server.Stop(); err != nil { // which sends the last spans
				t.Fatal(err)
			}
			spans := c.Spans()
			for _, s := range spans {
				if s.Trace != traceID || s.Service != "store" || s.Attributes["service.instance.id"] != "one" {
					t.Errorf("%q is in trace %s of %v", s.Name, s.Trace, s.Attributes)
				}
				if text := fmt.Sprint(s); strings.Contains(text, "secret") {
					t.Errorf("a span has a key or a value: %s", text)
				}
			}
			checkWrite(t, spans, put.Header.Revision, database.statements)
			read := one(t, spans, "etcdserverpb.KV/Range", spanID)
			if read.Attributes["sqlstore.rows"] != "1" || read.Attributes["sqlstore.revision"] == "" {
				t.Errorf("the read is %+v", read)
			}
			one(t, spans, "GET list", spanID)
		})
	}
}

// checkWrite checks the spans of a put that was alone in its batch.
func checkWrite(t *testing.T, spans []collector.Span, revision int64, statements []string) {
	t.Helper()
	call := one(t, spans, "etcdserverpb.KV/Put", spanID)
	if call.Kind != "Server" || call.Attributes["rpc.response.status_code"] != "OK" {
		t.Errorf("the call is %+v", call)
	}
	one(t, spans, "wait for a batch", call.ID)
	batch := one(t, spans, "batch", call.ID)
	want := map[string]string{
		"sqlstore.revision":   strconv.FormatInt(revision, 10),
		"sqlstore.batch.size": "1", "sqlstore.rows": "1",
	}
	for key, value := range want {
		if got := batch.Attributes[key]; got != value {
			t.Errorf("the batch's %s is %q, want %q", key, got, value)
		}
	}
	for _, statement := range statements {
		parent, name, _ := strings.Cut(statement, "/")
		if !slices.ContainsFunc(spans, func(s collector.Span) bool {
			return s.Name == name && slices.ContainsFunc(spans, func(p collector.Span) bool {
				return p.ID == s.Parent && p.Name == parent && (p.ID == batch.ID || p.Parent == batch.ID)
			})
		}) {
			t.Errorf("no span %q within the batch: %v", statement, names(spans))
		}
	}
}

// A server under etcd's command line begins traces at the configured rate, under etcd's name.
func TestRate(t *testing.T) {
	c := collector.Start(t)
	server := launch.Start(t, launch.Config{
		Command: []string{launch.Binary(t), "etcd"},
		Args: []string{
			"--enable-distributed-tracing", "--distributed-tracing-address", c.Address,
			"--distributed-tracing-sampling-rate", "1000000",
		},
	})
	client := connect(t, server)
	for i := range 3 {
		if _, err := client.Put(t.Context(), fmt.Sprint("k", i), "v"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.Put(within(t, false), "unsampled", "v"); err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(); err == nil || err.Error() != "signal: terminated" { // like etcd
		t.Fatal(err)
	}
	traces := map[string]bool{}
	for _, s := range c.Spans() {
		if s.Service != "etcd" {
			t.Errorf("%q is of the service %q", s.Name, s.Service)
		}
		if s.Name == "etcdserverpb.KV/Put" {
			traces[s.Trace] = true
		}
	}
	if len(traces) != 3 || traces[traceID] {
		t.Errorf("traces of puts: %v, want 3 that the server began", traces)
	}
}

func connect(t *testing.T, server *launch.Server) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// within returns a context of calls within the client's span.
func within(t *testing.T, sampled bool) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return metadata.AppendToOutgoingContext(ctx, "traceparent", parent(sampled))
}

func parent(sampled bool) string {
	if sampled {
		return "00-" + traceID + "-" + spanID + "-01"
	}
	return "00-" + traceID + "-" + spanID + "-00"
}

// list reads the collection of objects over HTTP, within the client's span.
func list(t *testing.T, server *launch.Server) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.ObjectsURL()+"/v1/objects/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Traceparent", parent(true))
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
}

// one returns the only span with a name and a parent.
func one(t *testing.T, spans []collector.Span, name, parent string) collector.Span {
	t.Helper()
	var found []collector.Span
	for _, s := range spans {
		if s.Name == name && s.Parent == parent {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d spans %q within %s: %v", len(found), name, parent, names(spans))
	}
	return found[0]
}

// names describes spans for a message.
func names(spans []collector.Span) (out []string) {
	for _, s := range spans {
		out = append(out, fmt.Sprintf("%s (%s in %s)", s.Name, s.ID, s.Parent))
	}
	return out
}
