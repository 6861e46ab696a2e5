package sidebyside

import (
	"context"
	"errors"
	"fmt"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// mostStreams is the highest number of open watch streams.
const mostStreams = 4

// watchStep opens, changes or closes a watch or a stream. Streams end with the context life.
func (p *player) watchStep(life, ctx context.Context, g *gen) error {
	n := g.IntN(100)
	if len(p.streams) == 0 || n < 8 && len(p.streams) < mostStreams {
		future := g.often(30)
		p.played = append(p.played, "open a watch stream")
		s, err := openPair(life, p.etcd, p.target, future)
		if err != nil {
			return err
		}
		p.streams = append(p.streams, s)
		return nil
	}
	i := g.IntN(len(p.streams))
	s := p.streams[i]
	switch {
	case n < 65:
		return p.createWatch(ctx, s, i, g)
	case n < 75 && p.compacted > 1:
		return p.compactedWatch(life, ctx, g)
	case n < 85:
		return p.cancelWatch(ctx, s, i, g)
	case n < 92:
		p.played = append(p.played, "compare watches")
		return p.rest(ctx, p.streams...)
	default:
		return p.closeStream(ctx, s, i)
	}
}

func (p *player) createWatch(ctx context.Context, s *pair, i int, g *gen) error {
	r := g.watchRequest()
	switch {
	case s.future && g.often(50):
		r.StartRevision = p.rev + 1 + int64(g.IntN(6))
	case s.future || g.often(50):
		r.StartRevision = 0
	case g.often(5):
		r.StartRevision = -1
	default:
		oldest := max(p.compacted, 1)
		r.StartRevision = min(max(p.rev+1-int64(g.IntN(20)), oldest), p.rev+1)
	}
	p.played = append(p.played, fmt.Sprintf("on stream %d: watch {%s}", i, text(r)))
	created, err := s.create(ctx, r)
	if err != nil {
		return p.watchError(s, err)
	}
	if !created.Canceled {
		s.ids = append(s.ids, created.WatchId)
	}
	if r.StartRevision > p.rev {
		return p.rest(ctx, s) // servers report no progress while a watch waits for its first revision
	}
	return p.caughtUpAndRest(ctx, s)
}

// caughtUpAndRest is rest after a watch began in the past. rest writes, and no write must reach a watch that is
// catching up: the headers would depend on when it does.
func (p *player) caughtUpAndRest(ctx context.Context, s *pair) error {
	if err := s.caughtUp(ctx, p.rev); err != nil {
		return p.watchError(s, err)
	}
	return p.rest(ctx, s)
}

func (g *gen) watchRequest() *pb.WatchCreateRequest {
	r := &pb.WatchCreateRequest{
		PrevKv:         g.often(50),
		ProgressNotify: g.often(20),
		Fragment:       g.often(20),
	}
	r.Key, r.RangeEnd = g.span()
	if g.often(25) {
		r.Filters = pick(g,
			[]pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NOPUT},
			[]pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NODELETE},
			[]pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NODELETE, pb.WatchCreateRequest_NOPUT},
			[]pb.WatchCreateRequest_FilterType{7, pb.WatchCreateRequest_NODELETE},
		)
	}
	if g.often(30) {
		r.WatchId = pick[int64](g, 1, 2, 3, 50, -5)
	}
	return r
}

func (p *player) cancelWatch(ctx context.Context, s *pair, i int, g *gen) error {
	if len(s.ids) == 0 || g.often(20) {
		id := pick[int64](g, 4711, -7)
		p.played = append(p.played, fmt.Sprintf("on stream %d: cancel %d, which does not exist", i, id))
		return s.sendBoth(cancelRequest(id)) // is not answered
	}
	if err := p.rest(ctx, s); err != nil { // no event may be in flight
		return err
	}
	id := pick(g, s.ids...)
	p.played = append(p.played, fmt.Sprintf("on stream %d: cancel %d", i, id))
	if err := s.cancelWatch(ctx, id); err != nil {
		return p.watchError(s, err)
	}
	return nil
}

// compactedWatch watches from a compacted revision, on a stream of its own, as etcd reports no progress on that stream
// afterwards.
func (p *player) compactedWatch(life, ctx context.Context, g *gen) error {
	r := g.watchRequest()
	r.Key, r.RangeEnd = []byte{0}, []byte{0}
	r.StartRevision = 1 + g.Int64N(p.compacted-1)
	p.played = append(p.played, fmt.Sprintf("on a stream of its own: watch {%s}", text(r)))
	s, err := openPair(life, p.etcd, p.target, true)
	if err != nil {
		return err
	}
	defer s.close()
	created, err := s.create(ctx, r)
	if err != nil {
		return p.watchError(s, err)
	}
	ended := func(got []*pb.WatchResponse) bool {
		return slices.ContainsFunc(got, func(g *pb.WatchResponse) bool { return g.Canceled })
	}
	err = errors.Join(
		s.target.wait(ctx, "the end of a compacted watch from target", ended),
		s.etcd.wait(ctx, "the end of a compacted watch from etcd", ended))
	s.sent++ // the end is like the answer to a cancellation
	again := &pb.WatchCreateRequest{Key: []byte("again"), WatchId: r.WatchId}
	if err == nil && g.often(50) {
		p.played = append(p.played, fmt.Sprintf("on that stream: watch {%s}", text(again)))
		_, err = s.create(ctx, again)
	}
	if err == nil {
		p.played = append(p.played, fmt.Sprintf("on that stream: cancel %d, twice", created.WatchId))
		err = s.cancelWatch(ctx, created.WatchId)
	}
	if err == nil {
		err = s.sendBoth(cancelRequest(created.WatchId)) // is not answered
	}
	if err == nil {
		_, err = s.create(ctx, again)
	}
	if err != nil {
		return p.watchError(s, err)
	}
	if d := s.compare(p.rev, p.borders); d != "" {
		return fmt.Errorf("%w: %s", errDiffer, d)
	}
	return nil
}

// closeStream half-closes a stream, on which events must keep arriving, and then ends it.
func (p *player) closeStream(ctx context.Context, s *pair, i int) error {
	p.played = append(p.played, fmt.Sprintf("half-close stream %d", i))
	if err := p.rest(ctx, s); err != nil {
		return err
	}
	if err := errors.Join(s.etcd.stream.CloseSend(), s.target.stream.CloseSend()); err != nil {
		return err
	}
	s.future = true // progress can no longer be requested
	if err := p.rest(ctx, s); err != nil {
		return err
	}
	s.close()
	p.streams = slices.Delete(p.streams, i, i+1)
	return nil
}
