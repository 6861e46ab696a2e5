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

// keptFactor is how many times larger than a message its answer is in memory: what gRPC received, the copy that is
// decoded, the message itself, and its JSON, which is half as large again.
const keptFactor = 5

// taken is where an answer goes that counts until its client has taken it: first on its way through gRPC, for the one
// that made it, then as what the gateway has.
type taken struct {
	http.ResponseWriter

	mu    sync.Mutex
	kept  *store.Kept // nil while the answer is small
	ended bool        // nobody waits for it
}

// webAddress is where the client of an HTTP request is.
type webAddress string

func (webAddress) Network() string  { return "tcp" }
func (a webAddress) String() string { return string(a) }

// Unwrap is for [http.ResponseController].
func (w *taken) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// keepAnswer counts an answer that is about to be made.
func (g *gateway) keepAnswer(ctx context.Context, w http.ResponseWriter, m proto.Message) error {
	t, ok := w.(*taken)
	if !ok || m == nil {
		return nil
	}
	if n := proto.Size(m); n >= largeInTurn {
		t.keep(g.keep(ctx, keptFactor*int64(n))) // from now on it is the client who takes its time
	}
	return nil
}

// keep counts the answer as kept instead of what it counted as.
func (w *taken) keep(kept *store.Kept) { w.count(kept, false) }

// done says that nothing more is written.
func (w *taken) done() { w.count(nil, true) }

// count ends, in one step with what it counts as then: who made the answer may be about to hand over what it takes.
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

// ofClient returns r as a request of its client, who can be hung up on.
func ofClient(r *http.Request) *http.Request {
	return r.WithContext(peer.NewContext(r.Context(), &peer.Peer{Addr: webAddress(r.RemoteAddr)}))
}

// Write writes in pieces, so that it shows whether the client takes them.
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
