package telemetry

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store"
)

// commit is the answer of /revision.
type commit struct {
	Revision    int64     `json:"revision"`
	CommittedAt time.Time `json:"committedAt"`
	Compacted   int64     `json:"compacted"`
}

// handleRevision serves /revision?of=N, when a revision was committed, and /revision?at=TIME, which one was current. It
// tells no key and no value, so it is as open as /status.
func handleRevision(mux *http.ServeMux, s *store.Store) {
	get(mux, "/revision", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
		defer cancel()
		find, err := wanted(s, r.URL.Query().Get("of"), r.URL.Query().Get("at"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		found, clock, err := find(ctx)
		switch {
		case errors.Is(err, backend.ErrUnknownTime), errors.Is(err, backend.ErrFutureRevision):
			http.Error(w, err.Error(), http.StatusGone)
			return
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		writeJSON(w, commit{found.Revision, found.At.UTC(), max(clock.Compacted, 0)})
	})
}

var errAsked = errors.New("ask with ?of=REVISION, or with ?at= and a time such as 2026-11-23T14:03:00Z")

// wanted returns the lookup that a request asks for.
func wanted(s *store.Store, of, at string) (func(context.Context) (backend.Commit, backend.Clock, error), error) {
	if (of == "") == (at == "") {
		return nil, errAsked
	}
	if at == "" {
		revision, err := strconv.ParseInt(of, 10, 64)
		if err != nil {
			return nil, errAsked
		}
		return func(ctx context.Context) (backend.Commit, backend.Clock, error) {
			return s.WrittenAt(ctx, revision)
		}, nil
	}
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return nil, errAsked
	}
	return func(ctx context.Context) (backend.Commit, backend.Clock, error) { return s.CurrentAt(ctx, t) }, nil
}
