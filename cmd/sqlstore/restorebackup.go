package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"time"

	"github.com/spf13/pflag"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/internal/backup"
	"github.com/sqlstore/sqlstore/internal/transfer"
)

// storeRestorer restores a whole store.
type storeRestorer struct {
	target sqlstore.Config
	bucket bucketFlags
	point  backup.Point
	work   string
	keepID bool

	resolved string // the bucket, once it is open
}

func (r *storeRestorer) register(f *pflag.FlagSet) {
	r.bucket.register(f, "from")
	registerDatabase(f, &r.target)
	f.StringVar(&r.point.Chain, "chain", "", "restore this chain of 'sqlstore backup list' (default: the newest that "+
		"has the point)")
	f.BoolVar(&r.point.Keep, "keep-revisions", false, "leave revisions and history as they were; dangerous for "+
		"clients that have seen newer ones")
	f.BoolVar(&r.keepID, "keep-cluster-id", false, "give the database the cluster id of the saved store")
	f.StringVar(&r.work, "work-dir", "", "directory for what is downloaded, which is removed at the end (default: the "+
		"system's for temporary files)")
}

// run restores the state at a revision or a time, the newest one if both are empty.
func (r *storeRestorer) run(ctx context.Context, revision int64, at string, out, errOut io.Writer) (err error) {
	if _, err := checkTarget(ctx, &r.target); err != nil {
		return err
	}
	src, err := r.open(ctx, revision, at, errOut)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	return r.load(ctx, src, out, errOut)
}

// open reads the backup up to a revision or a time, up to its end if both are empty.
func (r *storeRestorer) open(ctx context.Context, revision int64, at string, errOut io.Writer) (
	_ *backup.Source, err error,
) {
	switch {
	case revision < 0:
		return nil, fmt.Errorf("%w: --to-revision %d: revisions begin at 1", errSettings, revision)
	case revision != 0 && at != "":
		return nil, fmt.Errorf("%w: give either --to-revision or --to-time", errSettings)
	case at != "":
		if r.point.Time, err = parseTime("to-time", at, time.Now()); err != nil {
			return nil, err
		}
	}
	r.point.Revision = revision
	repository, err := r.bucket.open(ctx, "from")
	if err != nil {
		return nil, err
	}
	r.resolved = resolvedBucket(r.bucket.at, repository.Dir)
	_, _ = fmt.Fprintln(errOut, "reading the backup")
	src, err := repository.Open(ctx, r.point, r.work)
	if err := errors.Join(err, repository.Bucket.Close()); err != nil { // what src reads is on this machine
		if src != nil {
			_ = src.Close()
		}
		return nil, err
	}
	return src, nil
}

func (r *storeRestorer) load(ctx context.Context, src *backup.Source, out, errOut io.Writer) error {
	r.target.DatastoreWait = -1
	b, err := r.target.OpenBackend(ctx)
	if err != nil {
		return err
	}
	at, written := src.At()
	point := fmt.Sprintf("--to-revision %d --chain %s", at, src.Chain())
	if t := r.point.Time; !t.IsZero() { // users may have changed after it, at the same revision
		point = fmt.Sprintf("--to-time %s --chain %s", t.UTC().Format(time.RFC3339Nano), src.Chain())
	}
	_, _ = fmt.Fprintf(errOut, "restoring revision %d; if this is interrupted, run the command again with %s\n", at,
		point)
	p := newTransferProgress(errOut, src.Contents())
	result, err := transfer.Load(ctx, b, src, transfer.Options{
		Mark: r.mark(src), KeepClusterID: r.keepID, Progress: p.at,
	})
	p.end()
	if errors.Is(err, transfer.ErrOtherImport) {
		err = fmt.Errorf("%w: the backup has gone on since then, or another point is asked for: give the point and "+
			"--chain that the unfinished restore has printed (this one is %s)", err, point)
	}
	if err := errors.Join(err, b.Close()); err != nil {
		return err
	}
	when := ""
	if !written.IsZero() {
		when = ", committed at " + written.UTC().Format(stamp)
	}
	if _, err := fmt.Fprintf(out, "restored the state at revision %d%s\n", at, when); err != nil {
		return err
	}
	return printImported(out, result, src.Contents())
}

// mark identifies what is restored, so that a restore which was interrupted continues only with the same. How far the
// revision is lifted does not matter: that rises with every file in the bucket.
func (r *storeRestorer) mark(src *backup.Source) int64 {
	h := fnv.New64a()
	at, _ := src.At()
	_, _ = fmt.Fprint(h, r.resolved, src.Chain(), at, r.point.Keep)
	return int64(h.Sum64() | 1)
}
