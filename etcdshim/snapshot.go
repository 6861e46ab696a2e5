package etcdshim

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/sqlstore/sqlstore/internal/snapshot"
	"github.com/sqlstore/sqlstore/internal/store"
)

const (
	// snapshotChunk is the size of the part of a snapshot in a message, which fits a buffer of 256 KiB, and
	// snapshotAhead how many are read ahead of what the client receives.
	snapshotChunk = 252 << 10
	snapshotAhead = 4
)

// Snapshot sends a file in etcd's own format, then its checksum in a separate message.
func (s *maintenance) Snapshot(_ *pb.SnapshotRequest, stream pb.Maintenance_SnapshotServer) error {
	ctx := stream.Context()
	if err := s.engine.CheckAdmin(ctx); err != nil {
		return statusError(ctx, err)
	}
	if err := s.snapshots.acquire(ctx); err != nil {
		return statusError(ctx, err)
	}
	began := time.Now()
	log := s.snapshotting.begin("snapshot started")
	file, export, err := s.measureSnapshot(ctx)
	if err != nil {
		s.snapshots.release()
		log.Warn("snapshot failed", "error", err)
		return statusError(ctx, err)
	}
	progress := &progress{log: log, size: file.Size, last: time.Now()}
	x := s.snapshots.send()
	sent := make(chan error, 1)
	go func() { // only the end of the call ends the send of a message that the client does not receive
		defer s.snapshots.release()
		defer x.done()
		defer export.Close()
		sent <- sendSnapshot(file, stream, x, progress)
	}()
	select {
	case err = <-sent:
	case <-x.cut:
		log.Warn("snapshot cut off: its client reads too slowly", "after", time.Since(began))
		cutHTTP(ctx)
		return errSnapshotSlow
	}
	if err != nil {
		log.Warn("snapshot not sent", "error", err, "took", time.Since(began))
		return statusError(ctx, err)
	}
	log.Info("snapshot sent", "bytes", file.Size, "took", time.Since(began))
	return nil
}

// measureSnapshot returns a snapshot of the store, which can be written until the export is closed.
func (s *maintenance) measureSnapshot(ctx context.Context) (*snapshot.Snapshot, *store.Export, error) {
	x, err := s.engine.Export(ctx)
	if err != nil {
		return nil, nil, err
	}
	file, err := snapshot.New(ctx, x)
	if err != nil {
		x.Close()
		return nil, nil, err
	}
	return file, x, nil
}

// sendSnapshot sends the file while another goroutine reads it, then its checksum. The store is not read anymore when
// it returns.
func sendSnapshot(
	file *snapshot.Snapshot, stream pb.Maintenance_SnapshotServer, x *sending, p *progress,
) error {
	ctx, cancel := context.WithCancel(stream.Context())
	chunks := newChunks(ctx)
	var written sync.WaitGroup
	var failed error
	written.Go(func() {
		defer close(chunks.full)
		if failed = file.Write(ctx, chunks); failed == nil {
			failed = chunks.flush()
		}
	})
	defer written.Wait()
	defer cancel()
	sum := sha256.New()
	left := file.Size
	for chunk := range chunks.full {
		sum.Write(chunk) // it returns no error
		left -= int64(len(chunk))
		x.begin()
		if err := stream.SendMsg(&snapshotReply{left, chunk}); err != nil {
			return err
		}
		x.advance(len(chunk))
		p.advance(len(chunk))
		chunks.release(chunk)
	}
	if failed != nil {
		return failed
	}
	x.begin()
	return stream.SendMsg(&snapshotReply{0, sum.Sum(nil)})
}

// chunks collects what is written into parts of equal size.
type chunks struct {
	ctx  context.Context
	full chan []byte
	free chan []byte // the memory of those that have been sent
	open []byte
}

func newChunks(ctx context.Context) *chunks {
	return &chunks{ctx: ctx, full: make(chan []byte, snapshotAhead), free: make(chan []byte, snapshotAhead)}
}

// Write implements io.Writer.
func (c *chunks) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		n := min(len(rest), snapshotChunk-len(c.open))
		c.open, rest = append(c.open, rest[:n]...), rest[n:]
		if len(c.open) == snapshotChunk {
			if err := c.flush(); err != nil {
				return len(b) - len(rest), err
			}
		}
	}
	return len(b), nil
}

// flush hands over what has been written.
func (c *chunks) flush() error {
	if len(c.open) == 0 {
		return nil
	}
	select {
	case c.full <- c.open:
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	}
	select {
	case c.open = <-c.free:
	default:
		c.open = make([]byte, 0, snapshotChunk)
	}
	return nil
}

// release allows the memory of a part to be used again.
func (c *chunks) release(part []byte) {
	select {
	case c.free <- part[:0]:
	default:
	}
}

// progressPeriod is how often the progress of sending a snapshot is logged.
const progressPeriod = 10 * time.Second

// progress logs how much of a snapshot has been sent.
type progress struct {
	log        *slog.Logger
	size, sent int64
	last       time.Time
}

func (p *progress) advance(n int) {
	p.sent += int64(n)
	if now := time.Now(); now.Sub(p.last) >= progressPeriod {
		p.last = now
		p.log.Info("sending snapshot", "sent-bytes", p.sent, "bytes", p.size)
	}
}
