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

// answerFactor is how much more memory than a message its answer needs: the bytes that gRPC received, the copy that is
// decoded, the message itself, and its JSON, which is half as large again.
const answerFactor = 5

// answerWriter is the destination of an answer that is accounted for until its client has received it: first, on its
// way through gRPC, for whoever made it, then as the gateway's.
type answerWriter struct {
	http.ResponseWriter

	mu      sync.Mutex
	account *store.Account // nil while the answer is small
	ended   bool           // nobody waits for it
}

// webAddress is the address of an HTTP client.
type webAddress string

func (webAddress) Network() string  { return "tcp" }
func (a webAddress) String() string { return string(a) }

// Unwrap is for [http.ResponseController].
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// chargeAnswer accounts for an answer that is about to be made.
func (g *gateway) chargeAnswer(ctx context.Context, w http.ResponseWriter, m proto.Message) error {
	t, ok := w.(*answerWriter)
	if !ok || m == nil {
		return nil
	}
	if n := proto.Size(m); n >= permitReply {
		t.charge(g.charge(ctx, answerFactor*int64(n))) // from here on it waits for the client
	}
	return nil
}

// charge replaces the account of the answer.
func (w *answerWriter) charge(account *store.Account) { w.replace(account, false) }

// done means that nothing more is written.
func (w *answerWriter) done() { w.replace(nil, true) }

// replace ends the answer in the same step in which it replaces the account: the maker of the answer may be about to
// hand over its memory.
func (w *answerWriter) replace(account *store.Account, end bool) {
	w.mu.Lock()
	if !w.ended {
		w.account, account = account, w.account
	}
	w.ended = w.ended || end
	w.mu.Unlock()
	if account != nil {
		account.Release(math.MaxInt64)
	}
}

func (w *answerWriter) current() *store.Account {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.account
}

// ofClient returns r as a request of its client, whose connection can be closed.
func ofClient(r *http.Request) *http.Request {
	return r.WithContext(peer.NewContext(r.Context(), &peer.Peer{Addr: webAddress(r.RemoteAddr)}))
}

// Write writes in pieces, which shows whether the client reads them.
func (w *answerWriter) Write(p []byte) (n int, err error) {
	account := w.current()
	if account == nil {
		return w.ResponseWriter.Write(p)
	}
	share := account.Bytes()
	for all := len(p); n < all; {
		m, err := w.ResponseWriter.Write(p[n:min(n+countedBytes, all)])
		if n += m; err != nil {
			return n, err
		}
		account.Release(int64(float64(share) * float64(m) / float64(all)))
	}
	return n, nil
}
