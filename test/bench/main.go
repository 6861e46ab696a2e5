package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"syscall"
	"time"
)

func main() {
	c, err := parseFlags(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err == nil && c.bare != "":
		err = serveBare(c.bare, c.objects, c.value)
	case err == nil:
		err = c.main()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (c *config) main() error {
	debug.SetGCPercent(400) // the client's collections must not take the server's time
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := c.choose(); err != nil {
		return err
	}
	if c.dir == "" {
		dir, err := os.MkdirTemp("", "bench-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if err := os.Chmod(dir, 0o711); err != nil { // Postgres runs as another user
			return err
		}
		c.dir = dir
	}
	dir, err := filepath.Abs(c.dir)
	if err != nil {
		return err
	}
	c.dir = dir
	for _, s := range c.servers {
		if err := s.prepare(c.dir); err != nil {
			return err
		}
	}
	took, err := syncTime(c.dir)
	if err != nil {
		return err
	}
	fmt.Printf("a 4 KiB write and its fdatasync take %s\n", duration(took))
	if c.profile != "" {
		f, err := os.Create(c.profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	var all record
	for _, n := range c.sizes {
		c.objects = n
		r, starts, err := c.measureAll(ctx)
		all.Slices = append(all.Slices, r...)
		all.Starts = append(all.Starts, starts...)
		if len(r) > 0 { // an interrupted run prints what it has
			c.printTable(os.Stdout, r, starts)
			c.printReplicas(os.Stdout, r)
			c.printCompaction(os.Stdout, r)
			c.printAims(os.Stdout, r, starts)
		}
		if err != nil {
			return errors.Join(err, c.save(all))
		}
	}
	printGrowth(os.Stdout, c, all.Slices)
	printChunks(os.Stdout, c, all.Slices)
	return c.save(all)
}

// record is what -json writes.
type record struct {
	Slices []slice    `json:"slices"`
	Starts []starting `json:"starts"`
}

func (c *config) save(r record) error {
	if c.json == "" {
		return nil
	}
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(c.json, b, 0o644)
}

// measureAll fills all servers with c.objects and takes every phase through all pairs.
func (c *config) measureAll(ctx context.Context) (r results, starts []starting, err error) {
	var targets []*target
	defer func() {
		for _, t := range targets {
			_ = t.remove()
		}
	}()
	for _, s := range c.servers {
		fmt.Fprintf(os.Stderr, "filling %s with %d objects\n", s.name, c.objects)
		t, err := newTarget(s, c)
		if err != nil {
			return nil, nil, err
		}
		targets = append(targets, t)
		st, err := c.bring(ctx, t)
		if err != nil {
			return nil, nil, err
		}
		starts = append(starts, st)
	}
	syscall.Sync()
	for pair := range c.pairs {
		fmt.Fprintf(os.Stderr, "pair %d of %d\n", pair+1, c.pairs)
		for _, p := range c.inTurn(pair) {
			if !c.wants(p) && p.name != compactPhase {
				continue
			}
			for _, t := range targets {
				if p.skip != nil && p.skip(t) {
					continue
				}
				s, err := c.alone(ctx, p, t, targets, pair)
				if t.lags && errors.Is(err, errLost) {
					fmt.Printf("%s, pair %d, omitted: %v\n", p.name, pair+1, err)
					continue
				}
				if err != nil {
					return r, starts, err
				}
				if c.wants(p) && (p.skip == nil || !p.skip(t)) {
					r = append(r, s)
				}
			}
		}
		slices.Reverse(targets)
	}
	return r, starts, nil
}

// alone measures a phase and verifies that the other servers did nothing meanwhile.
func (c *config) alone(ctx context.Context, p *phase, t *target, all []*target, pair int) (slice, error) {
	idle := func() (sum time.Duration, err error) {
		for _, o := range all {
			if o == t {
				continue
			}
			used, err := o.used()
			if err != nil {
				return 0, errors.Join(err, o.dead())
			}
			sum += used.server + used.database
		}
		return sum, nil
	}
	before, err := idle()
	if err != nil {
		return slice{}, err
	}
	s, err := c.measure(ctx, p, t, pair)
	if err != nil {
		return s, err
	}
	after, err := idle()
	if err == nil && after-before > c.span/100 { // a kernel may charge a stopped process for a tick
		err = fmt.Errorf("idle servers used %v of CPU while %s was measured", after-before, t.name)
	}
	return s, err
}
