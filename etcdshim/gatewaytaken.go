package etcdshim

import (
	"context"
	"math"
	"net/http"

	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	"github.com/sqlstore/sqlstore/store"
)

// keptFactor is how many times larger than a message its answer is in memory: the message itself, and its JSON.
const keptFactor = 2

// taken is where an answer goes that counts until its client has taken it: gRPC has sent it when the gateway has it.
type taken struct {
	http.ResponseWriter
	kept *store.Kept // nil while the answer is small
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
	if !ok || m == nil || t.kept != nil {
		return nil
	}
	if n := proto.Size(m); n >= largeInTurn {
		t.kept = g.keep(ctx, keptFactor*int64(n))
	}
	return nil
}

// ofClient returns r as a request of its client, who can be hung up on.
func ofClient(r *http.Request) *http.Request {
	return r.WithContext(peer.NewContext(r.Context(), &peer.Peer{Addr: webAddress(r.RemoteAddr)}))
}

// Write writes in pieces, so that it shows whether the client takes them.
func (w *taken) Write(p []byte) (n int, err error) {
	if w.kept == nil {
		return w.ResponseWriter.Write(p)
	}
	share := w.kept.Bytes()
	for all := len(p); n < all; {
		m, err := w.ResponseWriter.Write(p[n:min(n+countedBytes, all)])
		if n += m; err != nil {
			return n, err
		}
		w.kept.Release(int64(float64(share) * float64(m) / float64(all)))
	}
	return n, nil
}

// done tells that nothing more is written.
func (w *taken) done() {
	if w.kept != nil {
		w.kept.Release(math.MaxInt64)
	}
}
