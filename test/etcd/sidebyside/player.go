package sidebyside

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

// stepTimeout bounds every step: a missing answer is a difference, too.
const stepTimeout = 20 * time.Second

// errDiffer is a difference between the servers.
var errDiffer = errors.New("servers differ")

// player plays one sequence on a fresh pair of servers.
type player struct {
	etcd, target *side
	state
	streams []*pair
	played  []string // the requests so far, for the report
	served  tally
	refused tally
	// borders are the revisions compacted at. For a key that changed at such a revision, the old value may or may not
	// still exist for prev_kv.
	borders map[int64]bool
}

// tally counts calls by method.
type tally map[string]int

func newPlayer(etcd, target *side) *player {
	return &player{
		etcd: etcd, target: target, state: state{rev: 1}, served: tally{}, refused: tally{},
		borders: map[int64]bool{},
	}
}

// play takes the given steps of the seed's sequence, then compares all that watches received. It returns the number of
// steps taken, and errDiffer or the error that prevented a comparison.
func (p *player) play(ctx context.Context, seed uint64, steps []int) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the streams
	for i, n := range steps {
		if err := p.step(ctx, seed, n); err != nil {
			return i + 1, fmt.Errorf("step %d of seed %d: %w", n, seed, err)
		}
	}
	end, cancelEnd := context.WithTimeout(ctx, stepTimeout)
	defer cancelEnd()
	if err := p.rest(end, p.streams...); err != nil {
		return len(steps), fmt.Errorf("at the end of seed %d: %w", seed, err)
	}
	return len(steps), nil
}

// step draws step n and takes it. Streams live as long as ctx.
func (p *player) step(ctx context.Context, seed uint64, n int) error {
	g := &gen{rand.New(rand.NewPCG(seed, uint64(n))), p.state}
	within, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	switch i := g.IntN(1000); {
	case i < 260:
		return p.ask(within, putCall(g.putRequest()))
	case i < 460:
		return p.ask(within, rangeCall(g.rangeRequest()))
	case i < 520:
		return p.ask(within, rangeStreamCall(g.streamRequest()))
	case i < 570:
		return p.ask(within, deleteCall(g.deleteRequest()))
	case i < 800:
		return p.ask(within, txnCall(g.txnRequest()))
	case i < 820:
		return p.compact(within, g.compactRequest())
	case i < 920:
		return p.leaseStep(within, g)
	case i < 930:
		return p.ask(within, hashKVCall(g.hashRequest()))
	default:
		return p.watchStep(ctx, within, g)
	}
}

// ask sends a call to both servers concurrently and compares the answers.
func (p *player) ask(ctx context.Context, c call) error {
	_, err := p.askBoth(ctx, c)
	return err
}

// askBoth is ask that also returns etcd's answer.
func (p *player) askBoth(ctx context.Context, c call) (answer, error) {
	p.played = append(p.played, c.String())
	target := make(chan answer, 1)
	go func() { target <- p.target.ask(ctx, c) }()
	etcd := p.etcd.ask(ctx, c)
	if d := differ(c.req, etcd, <-target); d != "" {
		return etcd, fmt.Errorf("%w:\n%s\n%s", errDiffer, c, d)
	}
	if etcd.err != nil {
		p.refused[c.method]++
		return etcd, nil //nolint:nilerr // both servers refused alike, which is no difference
	}
	p.served[c.method]++
	p.learn(etcd.msg)
	return etcd, nil
}

// learn updates the current revision from an answer.
func (p *player) learn(m proto.Message) {
	if h, ok := m.(interface{ GetHeader() *pb.ResponseHeader }); ok {
		p.rev = max(p.rev, h.GetHeader().GetRevision())
	}
}

func (p *player) compact(ctx context.Context, r *pb.CompactionRequest) error {
	// The compaction may or may not cancel a watch that is still catching up.
	if err := p.rest(ctx, p.streams...); err != nil {
		return err
	}
	answer, err := p.askBoth(ctx, compactCall(r))
	if err == nil && answer.err == nil {
		p.compacted = max(p.compacted, r.Revision)
		p.borders[r.Revision] = true
	}
	return err
}

func (p *player) leaseStep(ctx context.Context, g *gen) error {
	id := g.leaseID()
	switch g.IntN(8) {
	case 0, 1, 2:
		return p.ask(ctx, grantCall(&pb.LeaseGrantRequest{ID: id, TTL: g.ttl()}))
	case 3:
		return p.ask(ctx, revokeCall(&pb.LeaseRevokeRequest{ID: id}))
	case 4:
		return p.ask(ctx, timeToLiveCall(&pb.LeaseTimeToLiveRequest{ID: id, Keys: g.often(70)}))
	case 5:
		return p.ask(ctx, leasesCall())
	case 6: // a TTL below the minimum is raised; revoked at once, as it would expire at any time
		short := g.leaseID()
		answer, err := p.askBoth(ctx, grantCall(&pb.LeaseGrantRequest{ID: short, TTL: pick[int64](g, 0, 1, -1, 2)}))
		if err != nil || answer.err != nil {
			return err
		}
		return p.ask(ctx, revokeCall(&pb.LeaseRevokeRequest{ID: short}))
	default:
		return p.ask(ctx, keepAliveCall(&pb.LeaseKeepAliveRequest{ID: id}))
	}
}

// rest waits until the given streams are idle and compares what they received.
func (p *player) rest(ctx context.Context, streams ...*pair) error {
	if len(streams) == 0 {
		return nil
	}
	// The watches of a stream may receive the events of one batch in any order, and a replica may read both writes as
	// one batch. So the second write comes after the first one's event has arrived. When its own event arrives, all
	// older events have.
	var upTo int64
	for range 2 {
		upTo = p.rev
		if err := p.ask(ctx, putCall(&pb.PutRequest{Key: []byte(sentinelKey)})); err != nil {
			return err
		}
		for _, s := range streams {
			if err := s.received(ctx, p.rev); err != nil {
				return p.watchError(s, err)
			}
		}
	}
	for _, s := range streams {
		if err := s.caughtUp(ctx, p.rev); err != nil {
			return p.watchError(s, err)
		}
		if d := s.compare(upTo, p.borders); d != "" {
			return fmt.Errorf("%w: %s", errDiffer, d)
		}
	}
	return nil
}

// watchError adds what is known about a stream to the error of a wait for it.
func (p *player) watchError(s *pair, err error) error {
	return fmt.Errorf("%w (before that: %s)", err, s.compare(p.rev, p.borders))
}
