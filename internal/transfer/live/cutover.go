package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/transfer"
)

// idleInterval is how often a cut-over looks whether the source is quiet.
const idleInterval = 100 * time.Millisecond

// Cutover is what a cut-over did.
type Cutover struct {
	Revision, Compacted int64
	// Hash is etcd's HashKV of source and target at Revision. If Raised is not 0, it is that of the target, and the
	// source's covers the entry of [backend.Contents.Raised], too.
	Hash   uint32
	Raised int64
	// Duration is how long the cut-over took after the source's last write.
	Duration time.Duration
}

// Options configure [CutOver].
type Options struct {
	// Quiet is how long the source must have written nothing.
	Quiet time.Duration
	// Snapshot is the path of a temporary file. One that a killed cut-over has left there is removed.
	Snapshot string
	// Progress, if not nil, is called with the state, and how long it has been quiet, until the source is quiet.
	Progress func(now State, quiet time.Duration)
	// KeepClusterID gives the target the source's cluster id.
	KeepClusterID bool
}

// errQuiet ends the following.
var errQuiet = errors.New("the source is quiet")

// CutOver catches up with a source until it is quiet, compares the hashes of source and target, and lets servers open
// the target. Errors: those of [Follow], [transfer.ErrDiffers] if the target differs; it then stays closed.
func CutOver(ctx context.Context, s *Server, to *transfer.Following, o Options) (*Cutover, error) {
	client, err := s.connect()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	q := &quietness{client: client, since: time.Now(), wanted: o.Quiet}
	err = follow(ctx, client, to, func(now State) error {
		if o.Progress != nil {
			defer func() { o.Progress(now, time.Since(q.since)) }()
		}
		return q.at(ctx, now.Revision)
	})
	if !errors.Is(err, errQuiet) {
		return nil, err
	}
	if _, err := copyLeases(ctx, client, to); err != nil {
		return nil, err
	}
	if err := copyAuth(ctx, s, client, to, o.Snapshot); err != nil {
		return nil, err
	}
	done := &Cutover{Revision: to.Revision()}
	if err := compare(ctx, s, client, to, o.Snapshot, done); err != nil {
		return nil, err
	}
	remaining, err := remainingOf(ctx, client, to.Leases())
	if err != nil {
		return nil, err
	}
	if err := to.SetRemaining(ctx, remaining); err != nil {
		return nil, err
	}
	id := uint64(0)
	if o.KeepClusterID {
		now, err := s.head(ctx)
		if err != nil {
			return nil, err
		}
		id = now.ClusterId
	}
	// A write that came meanwhile would be lost, so this is the last step before the target opens.
	if last, err := revisionOf(ctx, client); err != nil || last != done.Revision {
		return nil, errors.Join(err, fmt.Errorf("%w: it was written to during the cut-over, at revision %d: stop its "+
			"clients and run the same command again", backend.ErrSource, last))
	}
	done.Duration = time.Since(q.since)
	return done, to.Finish(ctx, id)
}

// quietness tells when the source has written nothing for a while, and the target has all of it.
type quietness struct {
	client *clientv3.Client
	last   int64
	since  time.Time
	wanted time.Duration
}

func (q *quietness) at(ctx context.Context, target int64) error {
	if target != q.last {
		q.last, q.since = target, time.Now()
		return nil
	}
	if time.Since(q.since) < q.wanted {
		return nil
	}
	switch source, err := revisionOf(ctx, q.client); {
	case err != nil:
		return err
	case source == target:
		return errQuiet
	}
	return nil
}

// revisionOf returns the source's current revision.
func revisionOf(ctx context.Context, client *clientv3.Client) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	got, err := client.Get(ctx, "\x00", clientv3.WithCountOnly())
	if err != nil {
		return 0, fmt.Errorf("%w: read its revision: %w", backend.ErrSource, err)
	}
	return got.Header.Revision, nil
}

// copyAuth copies users and roles if they have changed. Only a snapshot has the hashes of the passwords.
func copyAuth(
	ctx context.Context, s *Server, client *clientv3.Client, to *transfer.Following, path string,
) error {
	status, err := client.AuthStatus(ctx)
	if err != nil {
		return fmt.Errorf("%w: read the revision of its users: %w", backend.ErrSource, err)
	}
	own, err := to.AuthRevision(ctx)
	if err != nil || own == status.AuthRevision {
		return err
	}
	c, err := contents(ctx, s, path)
	if err == nil && c.Auth != nil {
		err = to.SetAuth(ctx, c.Auth)
	}
	return err
}

// contents reads a snapshot of the source, which it saves in the file at path for that time.
func contents(ctx context.Context, s *Server, path string) (c *backend.Contents, err error) {
	defer func() { err = errors.Join(err, os.RemoveAll(path)) }()
	if err := Save(ctx, s, path); err != nil {
		return nil, err
	}
	f, err := Open(ctx, s, path)
	if err != nil {
		return nil, err
	}
	return f.Contents(), f.Close()
}

// compare compacts the target as the source is compacted, and compares their hashes.
func compare(
	ctx context.Context, s *Server, client *clientv3.Client, to *transfer.Following, path string, done *Cutover,
) error {
	source, err := hashOf(ctx, client, s.Endpoint, done.Revision)
	if err != nil {
		return fmt.Errorf("%w: read its hash: %w", backend.ErrSource, err)
	}
	if max(source.CompactRevision, 0) < to.Compacted() {
		return fmt.Errorf("%w: its HashKV is the one from before its compaction at revision %d: write to any key "+
			"of it, and run the same command again", backend.ErrSource, to.Compacted())
	}
	done.Compacted = max(source.CompactRevision, 0)
	if err := to.Compact(ctx, done.Compacted); err != nil {
		return err
	}
	if done.Hash, err = to.Hash(ctx, 0); err != nil || source.Hash == done.Hash {
		return err
	}
	c, err := contents(ctx, s, path)
	if err != nil {
		return err
	}
	if c.Raised > 0 {
		if with, err := to.Hash(ctx, c.Raised); err != nil || with == source.Hash {
			done.Raised = c.Raised
			return err
		}
	}
	return fmt.Errorf("%w: HashKV at revision %d is %d in the source, %d in the target", transfer.ErrDiffers,
		done.Revision, source.Hash, done.Hash)
}

// hashOf returns the source's HashKV at its current revision. If etcd is asked for a revision at which it was
// compacted, it answers with the hash from before the compaction. Up to 3.5 it does not say of which revision a hash
// is, but the header has a revision that is read later.
func hashOf(
	ctx context.Context, client *clientv3.Client, endpoint string, revision int64,
) (*clientv3.HashKVResponse, error) {
	now, err := client.HashKV(ctx, endpoint, 0)
	if err != nil || cmp.Or(now.HashRevision, now.Header.Revision) == revision {
		return now, err
	}
	return client.HashKV(ctx, endpoint, revision)
}
