package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// slice is the cost of one phase on one server, once. Times are in nanoseconds.
type slice struct {
	Objects   int           `json:"objects"`
	Phase     string        `json:"phase"`
	Server    string        `json:"server"`
	Pair      int           `json:"pair"`
	Ops       int           `json:"ops"`
	Wall      time.Duration `json:"wall"`
	CPU       time.Duration `json:"cpu"`        // the server's, all replicas together
	Database  time.Duration `json:"database"`   // CPU of its Postgres server
	ClientCPU time.Duration `json:"client_cpu"` // the load generator's
	OtherCPU  time.Duration `json:"other_cpu"`  // of everything else on the machine
	P50       time.Duration `json:"p50"`
	P99       time.Duration `json:"p99"`
	SentP50   time.Duration `json:"sent_p50,omitempty"`  // of an event, from when its update was sent (phase follow)
	WriteP50  time.Duration `json:"write_p50,omitempty"` // of that update
	Memory    memory        `json:"memory"`

	Compacting *compacting `json:"compacting,omitempty"`
}

// outcome is what a phase reports of one slice.
type outcome struct {
	ops     int
	wall    time.Duration
	latency []time.Duration
	used    usage // if the phase measured it itself; else 0

	sent, write []time.Duration // see slice
	compacting  *compacting
}

func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}

// measure runs one phase on one server, which it resumes for that long.
func (c *config) measure(ctx context.Context, p *phase, t *target, pair int) (s slice, err error) {
	if err := t.resume(); err != nil {
		return s, err
	}
	defer func() {
		if e := t.pause(); err == nil {
			err = e
		}
	}()
	if err := t.retain(p.retention); err != nil {
		return s, err
	}
	if err := t.wake(ctx); err != nil {
		return s, err
	}
	if p.prepare != nil {
		if err := p.prepare(ctx, t); err != nil {
			return s, fmt.Errorf("%s on %s: %w", p.name, t.name, err)
		}
		time.Sleep(c.settle)
	}
	if err := t.forgetPeak(); err != nil {
		return s, err
	}
	anon := t.watchAnon()
	before, err := t.used()
	if err != nil {
		return s, err
	}
	client0, machine0, began := clientCPU(), machineCPU(), time.Now()
	out, err := p.run(ctx, t)
	if err != nil {
		if dead := t.dead(); dead != nil {
			err = dead
		}
		return s, fmt.Errorf("%s on %s: %w", p.name, t.name, err)
	}
	// Work that the server postponed until after its answers counts for them.
	time.Sleep(c.settle)
	after, err := t.used()
	if err != nil {
		return s, err
	}
	used := after.since(before)
	client, machine := clientCPU()-client0, machineCPU()-machine0
	s = slice{
		Objects: c.objects, Phase: p.name, Server: t.name, Pair: pair, Ops: out.ops, Wall: out.wall,
		CPU: used.server, Database: used.database, ClientCPU: client,
		OtherCPU: max(0, machine-client-used.server-used.database),
	}
	s.OtherCPU = time.Duration(float64(s.OtherCPU) * float64(out.wall) / float64(time.Since(began)))
	if out.used != (usage{}) {
		s.CPU, s.Database = out.used.server, out.used.database
	}
	s.Compacting = out.compacting
	slices.Sort(out.latency)
	s.P50, s.P99 = percentile(out.latency, 0.5), percentile(out.latency, 0.99)
	s.SentP50, s.WriteP50 = median(out.sent), median(out.write)
	if s.Memory, err = t.memory(); err != nil {
		return s, err
	}
	s.Memory.Anon = max(s.Memory.Anon, anon())
	return s, nil
}

// watchAnon samples the anonymous memory until the returned function is called, which returns the maximum.
func (t *target) watchAnon() func() int64 {
	var (
		most int64
		wg   sync.WaitGroup
		done = make(chan struct{})
	)
	wg.Go(func() {
		for tick := time.NewTicker(100 * time.Millisecond); ; {
			select {
			case <-done:
				tick.Stop()
				return
			case <-tick.C:
				if m, err := t.memory(); err == nil {
					most = max(most, m.Anon)
				}
			}
		}
	})
	return func() int64 { close(done); wg.Wait(); return most }
}

// wakeTime is how long a server may take to recover after a stop: a replica's database is stopped with it.
const wakeTime = 10 * time.Second

// wake sends a little traffic over every connection, so that a slice does not start with what a stopped server has to
// catch up on.
func (t *target) wake(ctx context.Context) error {
	for end := time.Now().Add(wakeTime); ; {
		_, _, err := load{clients: 2 * len(t.conns), span: 50 * time.Millisecond}.run(ctx, t.getter())
		if status.Code(err) != codes.Unavailable || t.postgres == nil || time.Now().After(end) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func clientCPU() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// machineCPU is the time that all processors were busy, in steps of 10 ms.
func machineCPU() time.Duration {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(b), "\n")
	var busy int64
	for i, f := range strings.Fields(line) {
		switch i {
		case 1, 2, 3, 6, 7, 8: // user, nice, system, irq, softirq, steal
			n, _ := strconv.ParseInt(f, 10, 64)
			busy += n
		}
	}
	return time.Duration(busy) * 10 * time.Millisecond
}
