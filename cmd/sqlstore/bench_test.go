package main_test

import (
	"encoding/json"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
)

// Each phase makes requests, the watch receives every update, and no key is left.
func TestBench(t *testing.T) {
	s := launch.Start(t, launch.Config{})
	from := "--endpoint=" + s.ClientURL()
	out, err := sqlstore(t, "bench", from, "--keys=20", "--callers=7", "--duration=2s", "-o", "json")
	if err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	var results []struct {
		Phase    string
		Requests int
		P50      time.Duration `json:"p50Nanoseconds"`
		P99      time.Duration `json:"p99Nanoseconds"`
		Max      time.Duration `json:"maxNanoseconds"`
		Failed   int
	}
	if err := json.Unmarshal([]byte(out), &results); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	requests := map[string]int{}
	var phases []string
	for _, r := range results {
		phases = append(phases, r.Phase)
		requests[r.Phase] = r.Requests
		if r.Requests == 0 || r.Failed > 0 || r.P50 <= 0 || r.P50 > r.P99 || r.P99 > r.Max {
			t.Errorf("%+v", r)
		}
	}
	if want := strings.Fields("create get list update watch delete"); !slices.Equal(phases, want) {
		t.Errorf("phases %q, want %q", phases, want)
	}
	if requests["create"] != 20 || requests["delete"] != 20 || requests["watch"] != requests["update"] {
		t.Errorf("requests: %v", requests)
	}
	got, err := connect(t, s.Endpoint()).Get(t.Context(), "", clientv3.WithFromKey(), clientv3.WithCountOnly())
	if err != nil || got.Count > 0 {
		t.Errorf("%+v is left, %v", got, err)
	}
	out, err = sqlstore(t, "bench", from, "--keys=10", "--size=1800KiB", "--phases=create,get")
	if err == nil || !strings.Contains(out, "create: ") || !strings.Contains(out, "request is too large") {
		t.Errorf("requests that are refused: %s, %v", out, err)
	}
	for args, want := range map[string]string{
		"--phases=get": "must contain create", "--phases=create,put": `"put" is not create, get`,
		"--keys=0": "--keys must be",
	} {
		if out, err := sqlstore(t, "bench", from, args); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %s, %v", args, out, err)
		}
	}
}

// A server that does not answer any more costs the time limit of a request, not the time until it is back.
func TestBenchOfAServerThatHangs(t *testing.T) {
	s := launch.Start(t, launch.Config{})
	events := connect(t, s.Endpoint()).Watch(t.Context(), "/sqlstore-bench/", clientv3.WithPrefix())
	l := newLog()
	bench := command(t, l, "bench", "--endpoint="+s.ClientURL(), "--duration=1s", "--command-timeout=1s",
		"--phases=create,get")
	if r, ok := <-events; !ok || r.Err() != nil {
		t.Fatal(r.Err())
	}
	if err := syscall.Kill(s.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := bench.Wait(); err == nil {
		t.Error("it succeeded")
	}
	if err := syscall.Kill(s.PID(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	l.wait(t, "create: ", "requests failed", "deadline exceeded")
	l.wait(t, "keys are left")
}
