package powercut

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/test/faults/powercut/disk"
	"github.com/sqlstore/sqlstore/test/faults/powercut/mount"
	"github.com/sqlstore/sqlstore/test/support/durability"
)

// stepTimeout limits each step of a round: generous, because tests share slow machines.
const stepTimeout = 2 * time.Minute

// stage is what the lives of a test have in common.
type stage struct {
	dir      string // where the disk is mounted
	database *postgres
	servers  []*server // over the database, or a single one on the disk
	report   *report

	scenarios       []scenario
	startOperations int // the highest number of the operation of a start that is cut
	// intact checks the database itself before each start; it may be nil.
	intact func(*disk.Disk) error
}

// birth is how a life begins.
type birth struct {
	disk   *disk.Disk
	record *durability.Record
}

// empty is the birth of a database by its first start.
func empty(d *disk.Disk) birth {
	const longest = 3000 // values in bytes: some fit into a page with others, some do not
	r := durability.New()
	r.Pad = longest
	return birth{d, r}
}

// life is a database from its first start on, through many cuts.
type life struct {
	*stage
	*rand.Rand // of the current round
	birth
	seed      uint64
	rounds    uint64
	compacted int64      // acknowledged
	before    *disk.Disk // a copy of the disk before the current start, if one is kept
}

func random(seed, number uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, number)) }

// live begins a life and goes through cuts until one fails or there have been enough of them. It returns their number.
func (l *life) live(cuts int) (done int, err error) {
	l.report.lives++
	for done < cuts && err == nil {
		done++
		if err = l.round(); err != nil {
			err = fmt.Errorf("cut %d of the life with seed %d: %w", done, l.seed, err)
		}
	}
	return done, err
}

// fail reports a failure with the command that repeats it.
func (l *life) fail(t *testing.T, cuts int, err error) {
	t.Helper()
	if dir := env.Keep.Text(); dir != "" && l.before != nil {
		err = errors.Join(err, l.before.Export(dir))
	}
	t.Fatalf("%v\nrepeat with: %s %s go test -count=1 -run '^%s$' .", err, env.Seed.With(l.seed), env.Length.With(cuts),
		t.Name())
}

// round starts the servers, checks what they have, lets clients write until the power is cut, and leaves the disk as it
// is found afterwards.
func (l *life) round() error {
	// Each round has a seed of its own, because how much earlier ones take from theirs depends on the timing.
	l.rounds++
	l.Rand = random(l.seed, l.rounds)
	if env.Keep.Text() != "" {
		l.before = l.disk.Clone()
	}
	if l.intact != nil {
		if err := l.intact(l.disk); err != nil {
			return err
		}
	}
	mounted, err := mount.At(l.dir, l.disk)
	if err != nil {
		return err
	}
	before := l.record.Acknowledged()
	err = l.powered()
	l.disk.Cut()
	l.kill()
	hit := l.disk.Hit()
	if n := l.record.Acknowledged() - before; n > 0 {
		l.report.loaded++
		l.report.writes += n
	}
	if err != nil {
		err = fmt.Errorf("%w\nthe power was cut at: %s%s", err, hit, l.logs())
	}
	if err := errors.Join(err, mounted.Close()); err != nil {
		return err
	}
	survivor, losses := l.disk.Survive(random(^l.seed, l.rounds))
	l.disk = survivor
	l.report.add(hit, losses)
	return nil
}

// powered is the part of a round in which the disk has power.
func (l *life) powered() error {
	const tries = 3 // one in so many starts is cut
	if l.IntN(tries) == 0 {
		l.disk.Arm(disk.Aim{At: 1 + l.IntN(l.startOperations)})
	}
	err := l.start()
	if !l.disk.Disarm() {
		l.report.starts++
		return nil
	}
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	if err := l.check(); err != nil {
		return err
	}
	return l.use()
}

// check compares a server with what all have acknowledged.
func (l *life) check() error {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	s := l.servers[l.IntN(len(l.servers))]
	if err := l.record.Verify(ctx, s.address); err != nil {
		return err
	}
	if l.compacted < 2 {
		return nil
	}
	conn, err := s.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = l.record.Do(ctx, conn, durability.All(l.compacted-1))
	switch status.Code(err) {
	case codes.OutOfRange:
		return nil
	case codes.OK:
		return fmt.Errorf("revision %d was compacted, and the one before can be read", l.compacted)
	default:
		return err
	}
}

// use lets clients write and makes a server do something else as well, until the power is cut.
func (l *life) use() error {
	s := l.scenarios[l.IntN(len(l.scenarios))]
	const clients, steps = 8, 25
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	load := durability.Load{Seed: l.Uint64(), Clients: 1 + l.IntN(clients), Steps: steps, Down: l.disk.Faulty()}
	for _, s := range l.servers {
		load.Endpoints = append(load.Endpoints, s.address)
	}
	aim := disk.Aim{Matches: s.matches, At: 1 + l.IntN(s.operations), Fails: s.fails}
	after := l.IntN(3 * load.Clients)
	dying := l.dieAfter(time.Duration(l.IntN(2)*l.IntN(20))*time.Millisecond, ctx.Done())
	loaded := make(chan error, 1)
	go func() { loaded <- load.Run(ctx, l.record) }()
	err := l.act(ctx, s, aim, after)
	if s.ends || err != nil {
		l.disk.Cut()
	}
	err = errors.Join(err, <-loaded)
	if s.fails && err == nil {
		err = l.servers[0].stop()
		l.disk.Cut()
	}
	if l.disk.Disarm() {
		err = errors.Join(err, l.alive())
	}
	cancel()
	<-dying
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return nil
}

// dieAfter kills the servers some time after a cut, during which they go on without their disk. Clients that still wait
// then get an error.
func (l *life) dieAfter(pause time.Duration, never <-chan struct{}) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-l.disk.Down():
			time.Sleep(pause)
			l.kill()
		case <-never:
		}
	}()
	return done
}

// act arms the cut once some writes have been acknowledged, and makes a server do what a scenario wants.
func (l *life) act(ctx context.Context, s scenario, aim disk.Aim, after int) error {
	server := l.servers[0]
	conn, err := server.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(server.life, cancel)
	defer stop()
	if err := l.record.AwaitMore(ctx, after); err != nil {
		return err
	}
	l.disk.Arm(aim)
	if s.act == nil {
		return nil
	}
	err = s.act(ctx, l, conn)
	select {
	case <-l.disk.Faulty():
		return nil // any answer will do
	default:
		return err
	}
}
