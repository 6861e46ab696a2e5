package world

import (
	"context"
	"fmt"
	"time"

	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/test/support/history"
)

// progress asks a replica for the progress of a new watch.
func progress(r *replica, revision int64) error {
	a := r.api()
	if a == nil {
		return errDown
	}
	ctx, cancel := context.WithTimeout(context.Background(), opTimeout)
	defer cancel()
	st, err := a.watch(ctx, history.LeasePrefix, 0, false)
	if err != nil {
		return err
	}
	defer st.close()
	if _, err := st.next(ctx); err != nil { // it is created: a request before is for a stream without watches
		return err
	}
	st.requestProgress()
	for {
		switch resp, err := st.next(ctx); {
		case err != nil:
			return err
		case resp.asked && resp.revision >= revision:
			return nil
		case resp.asked:
			return fmt.Errorf("progress at revision %d, the clock is at %d", resp.revision, revision)
		}
	}
}

// early is a stream whose client asks for the progress and then takes nothing until history is lost.
type early struct {
	name string
	st   *store.WatchStream
}

// everything watches all keys.
var everything = store.WatchRequest{Key: []byte{0}, End: []byte{0}}

// askEarly asks every store for the progress of a stream.
func (w *World) askEarly() {
	for _, r := range w.replicas {
		if s := r.current(); s != nil {
			e := early{r.name, s.NewWatchStream()}
			e.st.Watch(everything)
			e.st.RequestProgress()
			w.early = append(w.early, e)
		}
	}
	time.Sleep(100 * time.Millisecond) // the request is taken
}

// answered checks that the stream, whose watch has ended with its history, answers a new request. Like etcd, a replica
// may leave a request without an answer when it cannot reach the database: the client asks again.
func (e early) answered(deadline time.Time) error {
	defer e.st.Close()
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	for ended := false; ; {
		waits, stop := context.WithTimeout(ctx, opTimeout)
		r, err := e.st.Next(waits)
		stop()
		switch {
		case err != nil && waits.Err() != nil && ctx.Err() == nil:
			e.st.RequestProgress()
		case err != nil:
			return fmt.Errorf("the watch has ended: %t: %w", ended, err)
		case r.Canceled && r.CompactRevision != 0:
			ended = true
			if err := e.st.CatchUp(ctx); err != nil {
				return err
			}
			e.st.Watch(everything)
		case ended && r.Created:
			e.st.RequestProgress()
		case r.ID == -1: // or nothing was lost
			return nil
		}
	}
}
