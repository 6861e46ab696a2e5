package sidebyside

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Each stream has a watch of its own sentinel key, whose events show a step what has arrived.
const (
	sentinelKey = "sentinel"
	sentinelID  = 1 << 40
)

// pair is one watch stream to each server; both get the same requests.
type pair struct {
	etcd, target *recorder
	requests     []*pb.WatchCreateRequest
	sent         int     // cancel requests that will be answered
	ids          []int64 // of watches that are probably alive
	// future streams have watches that wait for a future revision; servers do not answer progress requests on them.
	future bool
}

func openPair(ctx context.Context, etcd, target *side, future bool) (*pair, error) {
	p := &pair{future: future}
	var err error
	if p.etcd, err = record(ctx, etcd); err != nil {
		return nil, err
	}
	if p.target, err = record(ctx, target); err != nil {
		p.etcd.cancel()
		return nil, err
	}
	_, err = p.create(ctx, &pb.WatchCreateRequest{Key: []byte(sentinelKey), WatchId: sentinelID})
	return p, err
}

func (p *pair) close() {
	p.etcd.cancel()
	p.target.cancel()
}

// create requests a watch on both streams, waits for both answers, and returns etcd's.
func (p *pair) create(ctx context.Context, r *pb.WatchCreateRequest) (*pb.WatchResponse, error) {
	p.requests = append(p.requests, r)
	if err := p.sendBoth(createRequest(r)); err != nil {
		return nil, err
	}
	var answer *pb.WatchResponse
	created := func(got []*pb.WatchResponse) bool {
		n := 0
		for _, g := range got {
			if g.Created {
				n++
				answer = g
			}
		}
		return n == len(p.requests)
	}
	if err := p.target.wait(ctx, "created from target", created); err != nil {
		return nil, err
	}
	err := p.etcd.wait(ctx, "created from etcd", created)
	return answer, err
}

// cancelWatch cancels an existing watch, and waits for both answers.
func (p *pair) cancelWatch(ctx context.Context, id int64) error {
	p.sent++
	if err := p.sendBoth(cancelRequest(id)); err != nil {
		return err
	}
	canceled := func(got []*pb.WatchResponse) bool {
		n := 0
		for _, g := range got {
			if g.Canceled && !g.Created {
				n++
			}
		}
		return n == p.sent
	}
	p.ids = slices.DeleteFunc(p.ids, func(x int64) bool { return x == id })
	if err := p.target.wait(ctx, "canceled from target", canceled); err != nil {
		return err
	}
	return p.etcd.wait(ctx, "canceled from etcd", canceled)
}

func (p *pair) sendBoth(r *pb.WatchRequest) error {
	return errors.Join(p.etcd.send(r), p.target.send(r))
}

// received waits until both streams have sent the sentinel's event of revision rev.
func (p *pair) received(ctx context.Context, rev int64) error {
	for name, r := range map[string]*recorder{"etcd": p.etcd, "target": p.target} {
		if err := r.wait(ctx, fmt.Sprintf("the sentinel's event at %d from %s", rev, name),
			sentinelAt(rev)); err != nil {
			return err
		}
	}
	return nil
}

// caughtUp waits until no watch of either stream has to catch up with the revision rev.
func (p *pair) caughtUp(ctx context.Context, rev int64) error {
	if p.future {
		return nil // their watches never have to
	}
	return errors.Join(p.etcd.progress(ctx, "etcd", rev), p.target.progress(ctx, "target", rev))
}

func sentinelAt(rev int64) func([]*pb.WatchResponse) bool {
	return func(got []*pb.WatchResponse) bool {
		for _, g := range slices.Backward(got) {
			if g.WatchId != sentinelID {
				continue
			}
			for _, e := range g.Events {
				if e.Kv.ModRevision >= rev {
					return true
				}
			}
		}
		return false
	}
}

// progress requests progress until there is an answer: servers do not answer while any watch of the stream catches up.
// The answer must have the revision rev, as nothing writes at the same time.
func (r *recorder) progress(ctx context.Context, name string, rev int64) error {
	before := len(r.responses())
	answered := func(got []*pb.WatchResponse) bool {
		return slices.ContainsFunc(got[before:], func(g *pb.WatchResponse) bool {
			return g.WatchId == noWatch && !g.Created && g.Header.GetRevision() == rev
		})
	}
	for {
		if err := r.send(progressRequest()); err != nil {
			return err
		}
		attempt, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
		err := r.wait(attempt, fmt.Sprintf("progress at %d from %s", rev, name), answered)
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
}

// compare compares what both streams received up to a revision; see player.borders.
func (p *pair) compare(upTo int64, borders map[int64]bool) string {
	return differHistories(read(p.requests, p.etcd.responses(), upTo), read(p.requests, p.target.responses(), upTo),
		borders)
}
