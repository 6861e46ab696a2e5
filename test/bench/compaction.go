package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// steadyPhase and compactionPhase are the same load, without and with automatic compaction. They run only if
	// "compaction" is requested, and alternate in going first.
	steadyPhase     = "no-compaction"
	compactionPhase = "compaction"
	// samplePeriod is how often a server's progress and database size are sampled. Its metrics take 10 ms, so that four
	// samples a second would be the slowest percent of the updates.
	samplePeriod = 2 * time.Second
)

// compacting is additional data of a slice of those phases.
type compacting struct {
	Retention time.Duration `json:"retention"` // 0: no automatic compaction
	Samples   []sample      `json:"samples"`
	// UnderWay is the share of the time in which rows were deleted, P99UnderWay the p99 of the updates that ended then.
	UnderWay    float64       `json:"under_way"`
	P99UnderWay time.Duration `json:"p99_under_way"`
}

// sample is what a server reported; Size and InUse are of its database, in bytes.
type sample struct {
	At      time.Duration `json:"at"` // since the slice began
	Size    float64       `json:"size"`
	InUse   float64       `json:"in_use"`
	Removed float64       `json:"removed"` // rows, since its start
}

// compactionPhases are updates at a fixed rate, on servers that keep only recent history.
func (c *config) compactionPhases() []*phase {
	return []*phase{c.compactionPhase(steadyPhase, 0), c.compactionPhase(compactionPhase, c.retention)}
}

func (c *config) compactionPhase(name string, retention time.Duration) *phase {
	steady := func(span time.Duration) load { return load{clients: c.clients, span: span, rate: c.rate} }
	return &phase{
		name: name, asked: true, retention: retention,
		skip: func(t *target) bool { return t.canned || c.rate == 0 },
		// The first compaction is due after the retention plus a tenth. Leftovers of the previous slice must not count.
		prepare: func(ctx context.Context, t *target) error {
			if _, err := t.compact(ctx); err != nil {
				return err
			}
			_, _, err := steady(c.retention+c.retention/4+time.Second).run(ctx, t.updater())
			return err
		},
		run: func(ctx context.Context, t *target) (*outcome, error) {
			watched := t.watchSize(ctx)
			update, ended := t.updater(), make([][]time.Time, c.clients)
			out, err := report(steady(c.compactionSpan).run(ctx, func(ctx context.Context, n int) (bool, error) {
				more, err := update(ctx, n)
				if more && err == nil {
					ended[n] = append(ended[n], time.Now())
				}
				return more, err
			}))
			k, failed := watched()
			if err == nil {
				err = failed
			}
			if err != nil {
				return nil, err
			}
			k.Retention = retention
			k.judge(out.latency, slices.Concat(ended...))
			out.compacting = &k.compacting
			return out, nil
		},
	}
}

// watching is compacting with the times of its samples.
type watching struct {
	compacting
	at []time.Time
}

// watchSize samples until the returned function is called.
func (t *target) watchSize(ctx context.Context) func() (*watching, error) {
	var (
		w      = &watching{}
		failed error
		wg     sync.WaitGroup
		began  = time.Now()
		done   = make(chan struct{})
	)
	wg.Go(func() {
		for tick := time.NewTicker(samplePeriod); ; {
			s, err := t.sample(ctx)
			if err != nil {
				failed = err
			} else {
				now := time.Now()
				s.At = now.Sub(began)
				w.Samples, w.at = append(w.Samples, s), append(w.at, now)
			}
			select {
			case <-done:
				tick.Stop()
				return
			case <-tick.C:
			}
		}
	})
	return func() (*watching, error) { close(done); wg.Wait(); return w, failed }
}

// sample reads the metrics of the first replica; kine has none of these, so its files are measured.
func (t *target) sample(ctx context.Context) (s sample, err error) {
	if t.oneKey {
		s.Size, err = t.filesSize()
		s.InUse = s.Size
		return s, err
	}
	for _, addr := range t.addrs {
		m, err := scrape(ctx, "http://"+addr+"/metrics")
		if err != nil {
			return s, fmt.Errorf("metrics of %s: %w", t.name, err)
		}
		s.Size, s.InUse = m["etcd_mvcc_db_total_size_in_bytes"], m["etcd_mvcc_db_total_size_in_use_in_bytes"]
		s.Removed += m["etcd_debugging_mvcc_db_compaction_keys_total"]
	}
	return s, nil
}

// filesSize returns the disk space of the server's database.
func (t *target) filesSize() (bytes float64, err error) {
	if t.postgres != nil {
		err = t.postgres.with(func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, "SELECT pg_database_size(current_database())::float8").Scan(&bytes)
		})
		return bytes, err
	}
	files, err := filepath.Glob(filepath.Join(t.dir, "state.db*"))
	for _, f := range files {
		if info, err := os.Stat(f); err == nil {
			bytes += float64(info.Size())
		}
	}
	return bytes, err
}

// scrape reads the metrics without labels.
func scrape(ctx context.Context, url string) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d: %w", res.StatusCode, err)
	}
	m := map[string]float64{}
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if f, err := strconv.ParseFloat(value, 64); ok && err == nil {
			m[name] = f
		}
	}
	return m, nil
}

// judge separates the updates that ended during deletion from the others.
func (w *watching) judge(latency []time.Duration, ended []time.Time) {
	var during []time.Duration
	var spent time.Duration
	for i := 1; i < len(w.at); i++ {
		if w.Samples[i].Removed > w.Samples[i-1].Removed {
			spent += w.at[i].Sub(w.at[i-1])
		}
	}
	for i, at := range ended {
		n, _ := slices.BinarySearchFunc(w.at, at, time.Time.Compare)
		if n > 0 && n < len(w.at) && w.Samples[n].Removed > w.Samples[n-1].Removed {
			during = append(during, latency[i])
		}
	}
	if len(during) > 0 {
		slices.Sort(during)
		w.P99UnderWay = percentile(during, 0.99)
		w.UnderWay = float64(spent) / float64(w.at[len(w.at)-1].Sub(w.at[0]))
	}
}

// largest is the largest size among the samples of the n-th third of the slice.
func (k *compacting) largest(n int, figure func(sample) float64) (most float64) {
	third := len(k.Samples) / 3
	for _, s := range k.Samples[n*third : (n+1)*third] {
		most = max(most, figure(s))
	}
	return most
}

func total(s sample) float64 { return s.Size }
func inUse(s sample) float64 { return s.InUse }

// slowdown is, pair by pair, the p99 of updates during deletion (of all, if the server does not report it) as a
// multiple of the p99 without compaction.
func (r results) slowdown(server string) (spread, bool) {
	return r.compactionRatio(server, func(s slice) float64 {
		if k := s.Compacting; k != nil && k.P99UnderWay > 0 {
			return float64(k.P99UnderWay)
		}
		return float64(s.P99)
	})
}

func (r results) compactionRatio(server string, figure func(slice) float64) (spread, bool) {
	with, without := r.byPair(compactionPhase, server), r.byPair(steadyPhase, server)
	var v []float64
	for pair, s := range with {
		if w, ok := without[pair]; ok {
			v = append(v, figure(s)/figure(w))
		}
	}
	return spreadOf(v)
}

// growth is how much larger the database was in the last third of each slice with compaction than in the second.
func (r results) growth(server string) (spread, bool) {
	var v []float64
	for _, s := range r.of(compactionPhase, server) {
		if k := s.Compacting; k != nil && len(k.Samples) >= 3 {
			v = append(v, k.largest(2, total)/k.largest(1, total))
		}
	}
	return spreadOf(v)
}

// printCompaction prints what automatic compaction costs writes, and how the database's size develops.
func (c *config) printCompaction(out io.Writer, r results) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	head := fmt.Sprintf("\n%.0f updates/s, retention %v\tp99 without\twith\twhile rows go\tto without\tshare of the "+
		"time\tCPU, to without\trows/s\tsize by thirds\tin use by thirds\tlast to second\n", c.rate, c.retention)
	for _, s := range c.servers {
		of, without := r.of(compactionPhase, s.name), r.of(steadyPhase, s.name)
		slow, ok := r.slowdown(s.name)
		if !ok {
			continue
		}
		cpu, _ := r.compactionRatio(s.name, func(s slice) float64 { return float64(s.CPU+s.Database) / float64(s.Ops) })
		grown, _ := r.growth(s.name)
		thirds := func(figure func(sample) float64) string {
			var v []string
			for n := range 3 {
				v = append(v,
					size(int64(medianOf(of, func(s slice) float64 { return s.Compacting.largest(n, figure) }))))
			}
			return strings.Join(v, " ")
		}
		fmt.Fprintf(w, "%s%s\t%s\t%s\t%s\t%s\t%.0f%%\t%s\t%.0f\t%s\t%s\t%s\n", head, s.name,
			duration(medianOf(without, slowest)), duration(medianOf(of, slowest)),
			duration(medianOf(of, func(s slice) time.Duration { return s.Compacting.P99UnderWay })), times(slow, true),
			100*medianOf(of, func(s slice) float64 { return s.Compacting.UnderWay }), times(cpu, true),
			medianOf(of, func(s slice) float64 {
				k := s.Compacting.Samples
				return (k[len(k)-1].Removed - k[0].Removed) / (k[len(k)-1].At - k[0].At).Seconds()
			}), thirds(total), thirds(inUse), times(grown, true))
		head = ""
	}
	_ = w.Flush()
}
