package watch

import (
	"context"
	"slices"
	"testing"
	"time"
)

// testTimeout bounds how long a test waits for what must happen. A test that passes never waits that long.
const testTimeout = 30 * time.Second

// within returns a context that ends with the test or after testTimeout.
func within(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	tb.Cleanup(cancel)
	return ctx
}

// next returns the stream's next response.
func next(tb testing.TB, st *Stream) *Response {
	tb.Helper()
	r, err := st.Next(within(tb))
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// everything returns a watch of all keys.
func everything(from int64) Request {
	return Request{Key: []byte{0}, End: []byte{0}, StartRevision: from}
}

// newStream opens a stream that ends with the test.
func newStream(tb testing.TB, m *memory) *Stream {
	tb.Helper()
	st := m.NewStream()
	tb.Cleanup(st.Close)
	return st
}

// created starts a watch and returns its id.
func created(tb testing.TB, st *Stream, w Request) int64 {
	tb.Helper()
	st.Watch(w)
	r := next(tb, st)
	if !r.Created || r.Canceled {
		tb.Fatalf("created as %+v", r)
	}
	return r.ID
}

// expectRevisions reads events until all revisions have arrived, each once and in order, with n events per revision.
func expectRevisions(tb testing.TB, st *Stream, first, last int64, n int) {
	tb.Helper()
	for rev := first; rev <= last; {
		r := next(tb, st)
		if len(r.Events) == 0 || len(r.Events)%n != 0 {
			tb.Fatalf("waiting for revision %d: %+v", rev, r)
		}
		for part := range slices.Chunk(r.Events, n) {
			for _, e := range part {
				if e.Row.ModRevision != rev {
					tb.Fatalf("revision %d came instead of %d", e.Row.ModRevision, rev)
				}
			}
			rev++
		}
	}
}

func isSynced(st *Stream, id int64) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.watches[id].synced
}
