package console_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/console"
	"github.com/sqlstore/sqlstore/status"
)

// events opens a stream of events and returns a function that waits for the next one; its name is
// "" at the end of the stream.
func (s *served) events(path string) (next func() (name, data string)) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.within(), http.MethodGet, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = answer.Body.Close() })
	if kind := answer.Header.Get("Content-Type"); answer.StatusCode != http.StatusOK || kind != "text/event-stream" {
		s.t.Fatalf("answered %d with %s", answer.StatusCode, kind)
	}
	lines := bufio.NewScanner(answer.Body)
	return func() (name, data string) {
		for lines.Scan() {
			if field, value, ok := strings.Cut(lines.Text(), ": "); ok && field == "event" {
				name = value
			} else if ok && field == "data" {
				return name, value
			}
		}
		if err := lines.Err(); err != nil {
			s.t.Errorf("the stream is cut off: %v", err)
		}
		return "", ""
	}
}

// Samples of the server's metrics arrive as events, and the last hour has them.
func TestLive(t *testing.T) {
	t.Parallel()
	s := serveWith(t, console.Options{SampleEvery: 10 * time.Millisecond})
	next := s.events("/live")
	if name, _ := next(); name != "sample" { // there is no rate before the first one
		t.Fatalf("event %q", name)
	}
	s.put("secret-key", "secret-value")
	// A sample may see only a part of a write.
	for wrote, committed, revised, stored := false, false, false, false; !wrote || !committed || !revised || !stored; {
		name, data := next()
		var sample struct{ Time, Revisions, Writes, CommitP99, Keys *float64 }
		if err := json.Unmarshal([]byte(data), &sample); err != nil || name != "sample" || sample.Time == nil {
			t.Fatalf("event %q, %s, %v", name, data, err)
		}
		positive := func(v *float64) bool { return v != nil && *v > 0 }
		wrote, committed = wrote || positive(sample.Writes), committed || positive(sample.CommitP99)
		revised, stored = revised || positive(sample.Revisions), stored || positive(sample.Keys)
	}
	p := s.get("/recent.json").want(200)
	p.without("secret")
	if kind := p.header.Get("Content-Type"); kind != "application/json" {
		t.Errorf("it is %s", kind)
	}
	var hour map[string][]*float64
	if err := json.Unmarshal([]byte(p.body), &hour); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"time", "writes", "reads", "watches", "total", "inUse", "wal", "quota", "memory"} {
		if len(hour[name]) < 2 || len(hour[name]) != len(hour["time"]) {
			t.Errorf("%d values of %s, %d times", len(hour[name]), name, len(hour["time"]))
		}
	}
	if keys := hour["keys"]; *keys[len(keys)-1] != 1 || *hour["memory"][0] <= 0 || *hour["total"][0] <= 0 {
		t.Errorf("after a write, %s", p.body)
	}
}

// What the overview shows does not depend on a script, except for the curves.
func TestOverviewWithoutScripts(t *testing.T) {
	t.Parallel()
	s := serveWith(t, console.Options{SampleEvery: 10 * time.Millisecond})
	next := s.events("/live")
	for range 3 {
		next()
	}
	s.get("/").want(200, "Last hour", `data-series="commitP99"`, "writes <span class=\"value\">0</span>",
		"open <span class=\"value\">0</span>", "GiB</span>", "Purge backlog", "Maintenance by<td>this replica",
		"Alarms<td class=\"text\">none", "2.0 GiB, 0 % used").without("NaN", "reached in", "Lag of", "Certificate")
}

// An open stream ends once the server begins to stop, which waits for it.
func TestLiveEndsWithTheServer(t *testing.T) {
	t.Parallel()
	s := serveWith(t, console.Options{SampleEvery: time.Hour})
	next := s.events("/live")
	s.stop()
	for name, data := next(); name != ""; name, data = next() {
		if name != "sample" { // the first one, perhaps
			t.Fatalf("event %q, %s; want the end", name, data)
		}
	}
}

// While users have rights, the samples are as open as /metrics and /status: they have no keys and values.
func TestLiveNeedsNoUser(t *testing.T) {
	t.Parallel()
	s := serveWith(t, console.Options{SampleEvery: 10 * time.Millisecond})
	ctx := s.within()
	for _, step := range []func() error{
		func() error { _, err := s.client.UserAdd(ctx, "root", "r"); return err },
		func() error { _, err := s.client.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := s.client.AuthEnable(ctx); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	if name, _ := s.events("/live")(); name != "sample" {
		t.Errorf("the first event is %q", name)
	}
	s.get("/recent.json").want(200)
	s.get("/").want(200, "Last hour")
	s.get("/recent.json", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: cors").want(403)
}

// The overview names sections that the runbook has.
func TestRunbookSections(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range slices.Concat(status.Positive, status.Negative) {
		section := console.Runbook(status.Condition{Type: kind})
		if !strings.Contains(string(text), "\n### "+section+"\n") {
			t.Errorf("no section %s, for %s", section, kind)
		}
	}
	cause := status.Condition{Type: status.Ready, Reason: status.NoSpace}
	if section := console.Runbook(cause); section != "SqlstoreNoSpace" {
		t.Errorf("a server that is not ready for lack of space leads to %s", section)
	}
}

// Everything that a browser loads is small.
func TestStaticSize(t *testing.T) {
	t.Parallel()
	total := 0
	for _, path := range console.StaticPaths() {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		total += int(info.Size())
	}
	if total == 0 || total > 300<<10 {
		t.Errorf("the static files have %d bytes", total)
	}
}

// What is wrong comes with its section of the runbook, and an alarm with the member that it is raised for.
func TestOverviewOfAFullDatabase(t *testing.T) {
	t.Parallel()
	s := serve(t)
	member, err := s.client.MemberList(s.within())
	if err != nil {
		t.Fatal(err)
	}
	id := member.Members[0].ID
	s.raise(id, pb.AlarmType_NOSPACE)
	s.get("/").want(200, "Alarms<td class=\"text\">NOSPACE of "+strconv.FormatUint(id, 16), "See SqlstoreNoSpace in",
		`<tr class="bad"><th scope="row">NoSpace`).without("SqlstoreNotReady")
}
