package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/sqlstore/sqlstore/internal/testing/semantics"
)

// watcher watches a collection like a client of Kubernetes: it begins after a list's version, and when a watch ends,
// it continues at the next replica.
type watcher struct {
	s      *store
	prefix string
	done   int64    // the last version that was received completely
	events []string // all events but bookmarks
	open   []string // those of the version after done, of which there may be more
	began  int      // how often
	each   int      // number of events after which the next watch begins; 0 for none
	marks  int      // bookmarks
}

var (
	errDisorder = errors.New("out of order")
	errEnough   = errors.New("cut off")
)

// run follows until it receives the object last.
func (f *watcher) run(ctx context.Context, last string) error {
	for {
		f.began++
		err := f.once(ctx, last)
		if err == nil || ctx.Err() != nil || errors.Is(err, errDisorder) {
			return err
		}
		if failure, is := errors.AsType[*semantics.Failure](err); is && failure.Code < http.StatusInternalServerError {
			return err
		}
	}
}

// once follows one watch. If a version was cut in two, its first part has to come again.
func (f *watcher) once(ctx context.Context, last string) error {
	query := url.Values{"watch": {"1"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {number(f.done)}}
	w, err := semantics.OpenWatch(ctx, f.s.client, f.s.url(f.prefix)+"?"+query.Encode())
	if err != nil {
		return err
	}
	defer w.Close()
	again, told := f.open, 0
	f.events, f.open = f.events[:len(f.events)-len(again)], nil
	for {
		e, err := w.Next()
		switch {
		case err != nil:
			return f.cut(again, err)
		case e.Failure != nil:
			return f.cut(again, e.Failure)
		case e.Revision < f.done || e.Revision == f.done && e.Type != "BOOKMARK":
			return fmt.Errorf("%s of %s at %d after %d: %w", e.Type, e.Name, e.Revision, f.done, errDisorder)
		case e.Type == "BOOKMARK":
			f.marks++
			f.done, f.open = e.Revision, nil
			continue
		}
		if f.done < e.Revision-1 {
			f.done, f.open = e.Revision-1, nil
		}
		event := fmt.Sprintf("%d %s %s", e.Revision, e.Type, e.Name)
		f.open, f.events = append(f.open, event), append(f.events, event)
		if len(again) > 0 && again[0] == event {
			again = again[1:]
		}
		told++
		switch {
		case e.Name == last:
			return f.cut(again, nil)
		case told == f.each:
			return f.cut(again, errEnough)
		}
	}
}

// cut ends a watch: an event that did not come again is kept, so that the difference shows.
func (f *watcher) cut(again []string, err error) error {
	f.open, f.events = append(f.open, again...), append(f.events, again...)
	return err
}
