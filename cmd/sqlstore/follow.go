package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/transfer"
	"github.com/sqlstore/sqlstore/internal/transfer/live"
)

// followEvery is the time between two lines about a target that follows.
const followEvery = 30 * time.Second

// runFollowing copies a running server, unless that is done, and follows it.
func (i *importer) runFollowing(ctx context.Context, out, errOut io.Writer) error {
	server, err := i.source.server()
	if err != nil {
		return fmt.Errorf("--follow needs a running server: %w", err)
	}
	i.target.DatastoreWait = -1
	b, err := i.target.OpenBackend(ctx)
	if err != nil {
		return err
	}
	return errors.Join(i.followInto(ctx, b, server, out, errOut), b.Close())
}

func (i *importer) followInto(
	ctx context.Context, b backend.Backend, server *live.Server, out, errOut io.Writer,
) error {
	to, err := transfer.Resume(ctx, b, i.followMark())
	if errors.Is(err, transfer.ErrNotFollowing) || errors.Is(err, transfer.ErrOpened) { // which an import refuses
		if err := i.base(ctx, b, out, errOut); err != nil {
			return err
		}
		to, err = transfer.Resume(ctx, b, i.followMark())
	}
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(errOut, "following from revision %d; stop at any time, and run the same command again to go "+
		"on\n", to.Revision())
	err = live.Follow(ctx, server, to, (&followed{out: errOut, shown: time.Now()}).at)
	if ctx.Err() != nil { // a signal
		_, err = fmt.Fprintf(out, "stopped at revision %d; run the same command again to go on, or "+
			"'sqlstore cutover'\n", to.Revision())
	}
	return err
}

// followed says how a following goes on.
type followed struct {
	out   io.Writer
	shown time.Time
	away  bool
}

func (f *followed) at(now live.State) {
	switch {
	case now.Away && !f.away:
		_, _ = fmt.Fprintln(f.out, "the source does not answer; the following goes on when it does")
	case !now.Away && f.away:
		_, _ = fmt.Fprintf(f.out, "the source answers again, at revision %d\n", now.Source)
	case !now.Away && time.Since(f.shown) >= followEvery:
		f.shown = time.Now()
		_, _ = fmt.Fprintf(f.out, "following: revision %d, the source is at %d\n", now.Revision,
			max(now.Source, now.Revision))
	}
	f.away = now.Away
}

// base copies a snapshot, which is where the following begins.
func (i *importer) base(ctx context.Context, b backend.Backend, out, errOut io.Writer) error {
	mark, err := transfer.Check(ctx, b)
	if err != nil {
		return err
	}
	src, err := i.open(ctx, mark, errOut)
	if err != nil {
		return err
	}
	o := transfer.Options{Mark: i.contentsMark("base", src.Contents()), Follow: i.followMark()}
	return errors.Join(i.load(ctx, b, src, o, out, errOut), src.Close())
}

func (i *importer) followMark() int64 { return i.mark("follow") }
