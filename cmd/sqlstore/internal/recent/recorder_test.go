package recent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/url"
	"strings"
	"testing"
	"time"
)

var begin = time.Date(2026, 11, 23, 14, 0, 0, 0, time.UTC)

// after returns a time of the fake clock.
func after(seconds float64) time.Time {
	return begin.Add(time.Duration(seconds * float64(time.Second)))
}

func newRecorder() *Recorder {
	return New(nil, Interval, slog.New(slog.NewTextHandler(io.Discard, nil)))
}

// server is what a server's metrics say.
type server struct {
	puts, deletes, revision, ranges, gets, hits, misses int
	commits, reads                                      [3]int // up to 1 ms, 2 ms and more
	watches, total, quota                               int
}

func (s server) text() []byte {
	var out strings.Builder
	metric := func(kind, name string, n int) { fmt.Fprintf(&out, "# TYPE %s %s\n%[1]s %[3]d\n", name, kind, n) }
	metric("counter", putsTotal, s.puts)
	metric("counter", deletesTotal, s.deletes)
	metric("gauge", currentRevision, s.revision)
	metric("counter", rangesTotal, s.ranges)
	metric("counter", cacheHits, s.hits)
	metric("counter", cacheMisses, s.misses)
	metric("gauge", watchesOpen, s.watches)
	metric("gauge", sizeTotal, s.total)
	metric("gauge", sizeQuota, s.quota)
	fmt.Fprintf(&out, "# TYPE %s counter\n", objectsTotal)
	for _, verb := range []string{"get", "put"} {
		fmt.Fprintf(&out, "%s{verb=%q,code=\"200\"} %d\n", objectsTotal, verb, s.gets)
	}
	histogram := func(name, labels string, n [3]int) {
		total := 0
		for i, bound := range []string{"0.001", "0.002", "+Inf"} {
			total += n[i]
			fmt.Fprintf(&out, "%s_bucket{%sle=%q} %d\n", name, labels, bound, total)
		}
		set := strings.Replace("{"+labels+"}", "{}", "", 1)
		fmt.Fprintf(&out, "%s_sum%s 1\n%[1]s_count%[2]s %[3]d\n", name, set, total)
	}
	fmt.Fprintf(&out, "# TYPE %s histogram\n", commitSeconds)
	histogram(commitSeconds, "", s.commits)
	fmt.Fprintf(&out, "# TYPE %s histogram\n", rangeSeconds)
	histogram(rangeSeconds, `success="true",`, s.reads)
	histogram(rangeSeconds, `success="false",`, s.reads)
	return []byte(out.String())
}

// want checks values of the newest sample; NaN stands for a gap.
func (r *Recorder) want(t *testing.T, values map[Series]float64) {
	t.Helper()
	s, ok := r.Hour().Latest()
	if !ok {
		t.Fatal("no sample")
	}
	for series, want := range values {
		if got, ok := s.Value(series); ok == math.IsNaN(want) || ok && math.Abs(got-want) > 1e-9 {
			t.Errorf("%s is %g, %t; want %g", series, got, ok, want)
		}
	}
}

var gap = math.NaN()

// Rates and quantiles are those since the sample before; without one, and without events, there are none.
func TestSamples(t *testing.T) {
	r := newRecorder()
	one := server{puts: 1000, revision: 1000, watches: 7, total: 5 << 20, reads: [3]int{8, 0, 0}}
	r.record(after(0), one.text(), nil)
	r.want(t, map[Series]float64{
		Writes: gap, Revisions: gap, Reads: gap, CommitP50: gap, ReadP99: gap, CacheHits: gap, Quota: gap, Memory: gap,
		Watches: 7, Total: 5 << 20,
	})
	two := one
	two.puts, two.deletes, two.revision, two.ranges, two.gets, two.quota = 1040, 10, 1020, 30, 20, 2<<30
	two.commits, two.reads, two.hits, two.misses = [3]int{10, 10, 0}, [3]int{8, 49, 1}, 30, 10
	r.record(after(5), two.text(), nil)
	r.want(t, map[Series]float64{
		Writes: 10, Revisions: 4, Reads: 10, CommitP50: 0.001, CommitP99: 0.00198, ReadP50: 0.001 + 0.001*25/49,
		ReadP99: 0.002, CacheHits: 0.75, Quota: 2 << 30,
	})
	r.record(after(15), two.text(), nil)
	r.want(t, map[Series]float64{Writes: 0, Revisions: 0, CommitP50: gap, ReadP99: gap, CacheHits: gap})
}

// What could not be read is a gap, and the next rates are those since the last that could.
func TestGaps(t *testing.T) {
	r := newRecorder()
	s := server{puts: 100, watches: 7, commits: [3]int{1, 0, 0}}
	r.record(after(0), s.text(), nil)
	r.record(after(5), nil, errors.New("no answer"))
	r.want(t, map[Series]float64{Writes: gap, Watches: gap})
	r.record(after(10), []byte("{"), nil)
	r.want(t, map[Series]float64{Writes: gap, Watches: gap})
	s.puts = 200
	r.record(after(20), s.text(), nil)
	r.want(t, map[Series]float64{Writes: 5, Watches: 7})
	// The metrics of a server that started again.
	r.record(after(25), server{watches: 1}.text(), nil)
	r.want(t, map[Series]float64{Writes: gap, CommitP50: gap, Watches: 1})
	r.record(after(30), server{puts: 10}.text(), nil)
	r.want(t, map[Series]float64{Writes: 2})
	r.record(after(30), server{puts: 20}.text(), nil)
	r.want(t, map[Series]float64{Writes: gap})
}

func TestQuantiles(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		in      buckets
		q, want float64
	}{
		{nil, 0.5, gap},
		{buckets{{1, 0}, {inf, 0}}, 0.5, gap},
		{buckets{{1, 4}, {2, 4}, {inf, 4}}, 0.5, 0.5},
		{buckets{{1, 0}, {2, 4}, {inf, 4}}, 0.5, 1.5},
		{buckets{{1, 2}, {2, 4}, {inf, 4}}, 0.5, 1},
		{buckets{{1, 1}, {2, 1}, {4, 2}, {inf, 2}}, 0.75, 3},
		{buckets{{1, 0}, {2, 0}, {inf, 4}}, 0.5, 2},
	} {
		if got := c.in.quantile(c.q); got != c.want && !math.IsNaN(got+c.want) {
			t.Errorf("quantile %g of %v is %g, want %g", c.q, c.in, got, c.want)
		}
	}
}

// The ring has the newest samples, in their order, and tells a reader what it has not read.
func TestRing(t *testing.T) {
	r := newRecorder()
	_, next, more := r.Since(0)
	for i := range capacity + 10 {
		r.record(after(5*float64(i)), server{watches: i}.text(), nil)
	}
	select {
	case <-more:
	default:
		t.Error("the reader is not told of new samples")
	}
	samples, next, more := r.Since(next)
	if len(samples) != capacity || next != int64(capacity+10) || next != r.Count() {
		t.Fatalf("%d samples of %d", len(samples), next)
	}
	for i := range samples {
		if v, _ := samples[i].Value(Watches); v != float64(i+10) {
			t.Fatalf("sample %d has %g", i, v)
		}
	}
	r.record(after(1e6), server{watches: -1}.text(), nil)
	<-more
	if samples, _, _ = r.Since(next); len(samples) != 1 || samples[0].values[Watches] != -1 {
		t.Errorf("%d new samples", len(samples))
	}
	if hour := r.Hour(); len(hour) != 1 {
		t.Errorf("the last hour has %d samples", len(hour))
	}
}

// A limit is reached at the growth of the samples, of which there must be enough.
func TestUntil(t *testing.T) {
	r := newRecorder()
	want := func(limit float64, d time.Duration, ok bool) {
		t.Helper()
		if got, told := r.Hour().Until(limit, Total); got != d || told != ok {
			t.Errorf("%s, %t; want %s, %t", got, told, d, ok)
		}
	}
	want(100, 0, false)
	r.record(after(0), nil, errors.New("no answer"))
	for i := range 10 {
		r.record(after(60*float64(i+1)), server{total: 100 + i}.text(), nil)
	}
	want(1000, 0, false)
	r.record(after(660), server{total: 110}.text(), nil)
	want(170, time.Hour, true)
	want(50, 0, true)
	want(1e300, 0, false)
	r.record(after(720), server{total: 100}.text(), nil)
	want(170, 0, false)
	r.record(after(780), server{total: 90}.text(), nil)
	want(170, 0, false)
}

func TestJSON(t *testing.T) {
	r := newRecorder()
	empty, err := json.Marshal(r.Hour())
	if err != nil || !strings.HasPrefix(string(empty), `{"time":[],"writes":[],`) {
		t.Errorf("%s, %v", empty, err)
	}
	r.record(begin, server{puts: 1, total: 123_456_789}.text(), nil)
	r.record(begin.Add(5001*time.Millisecond), server{puts: 2, total: 123_456_789}.text(), nil)
	text, err := json.Marshal(r.Hour())
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		`{"time":[1795442400,1795442405.001],"writes":[null,0.19996],`, `"total":[123456789,123456789],`,
		`"memory":[null,null]}`,
	} {
		if !strings.Contains(string(text), part) {
			t.Errorf("no %s in %s", part, text)
		}
	}
	latest, _ := r.Hour().Latest()
	text, err = json.Marshal(latest)
	if err != nil || !strings.HasPrefix(string(text), `{"time":1795442405.001,"writes":0.19996,"revisions":0,`) {
		t.Errorf("%s, %v", text, err)
	}
}

// A recorder asks for what it needs until its context ends.
func TestRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan url.Values)
	r := New(func(ctx context.Context, query url.Values) ([]byte, error) {
		select {
		case asked <- query:
			return server{watches: 3}.text(), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}, time.Millisecond, slog.New(slog.NewTextHandler(io.Discard, nil)))
	ended := make(chan struct{})
	go func() { defer close(ended); r.Run(ctx) }()
	if q := <-asked; len(q["name[]"]) != len(families) {
		t.Errorf("it asked for %v", q)
	}
	<-asked
	r.want(t, map[Series]float64{Watches: 3})
	n := r.Count()
	cancel()
	<-ended
	if got := r.Count(); got > n+1 {
		t.Errorf("%d samples after the end, %d before", got, n)
	}
}
