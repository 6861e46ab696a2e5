package etcdshim

import (
	"context"
	"math"
	"net/http"
	"sync"

	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	"github.com/sqlstore/sqlstore/internal/store"
)

// keptFactor is how much more memory than a message its answer takes: the bytes that gRPC received, the copy that is
// decoded, the message itself, and its JSON, which is half as large again.
const keptFactor = 5

// taken is the destination of an answer that counts until its client has received it: first, on its way through gRPC,
// for whoever made it, then as the gateway's.
type taken struct {
	http.ResponseWriter

	mu    sync.Mutex
	kept  *store.Kept // nil while the answer is small
	ended bool        // nobody waits for it
}

// webAddress is the address of an HTTP client.
type webAddress string

func (webAddress) Network() string  { return "tcp" }
func (a webAddress) String() string { return string(a) }

// Unwrap is for [http.ResponseController].
func (w *taken) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// keepAnswer accounts for an answer that is about to be made.
func (g *gateway) keepAnswer(ctx context.Context, w http.ResponseWriter, m proto.Message) error {
	t, ok := w.(*taken)
	if !ok || m == nil {
		return nil
	}
	if n := proto.Size(m); n >= largeInTurn {
		t.keep(g.keep(ctx, keptFactor*int64(n))) // from here on it waits for the client
	}
	return nil
}

// keep replaces what the answer counted so far.
func (w *taken) keep(kept *store.Kept) { w.count(kept, false) }

// done means that nothing more is written.
func (w *taken) done() { w.count(nil, true) }

// count ends in the same step in which it replaces the account: the maker of the answer may be about to hand over its
// memory.
func (w *taken) count(kept *store.Kept, end bool) {
	w.mu.Lock()
	if !w.ended {
		w.kept, kept = kept, w.kept
	}
	w.ended = w.ended || end
	w.mu.Unlock()
	if kept != nil {
		kept.Release(math.MaxInt64)
	}
}

func (w *taken) counted() *store.Kept {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.kept
}

// ofClient returns r as a request of its client, whose connection can be closed.
func ofClient(r *http.Request) *http.Request {
	return r.WithContext(peer.NewContext(r.Context(), &peer.Peer{Addr: webAddress(r.RemoteAddr)}))
}

// Write writes in pieces, which shows whether the client reads them.
func (w *taken) Write(p []byte) (n int, err error) {
	kept := w.counted()
	if kept == nil {
		return w.ResponseWriter.Write(p)
	}
	share := kept.Bytes()
	for all := len(p); n < all; {
		m, err := w.ResponseWriter.Write(p[n:min(n+countedBytes, all)])
		if n += m; err != nil {
			return n, err
		}
		kept.Release(int64(float64(share) * float64(m) / float64(all)))
	}
	return n, nil
}
