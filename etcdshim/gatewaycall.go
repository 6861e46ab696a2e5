package etcdshim

import (
	"context"
	"net/http"
	"strconv"
	"sync"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/sqlstore/sqlstore/internal/tracing"
)

// Metadata that the gateway adds to each call: the client's address, and the number of the answer.
const (
	gatewayClient = "gateway-client"
	gatewayAnswer = "gateway-answer"
)

// gatewayNetwork is the network of the gateway's connection to the server, and of no other.
const gatewayNetwork = "in-process"

// answers are those that the gateway waits for, by number. The gateway runs in the process that makes them, so the
// memory of an answer counts from its creation until its client has received it.
type answers struct {
	mu   sync.Mutex
	last uint64
	open map[string]*answerWriter
}

type answerKey struct{}

// begin returns r with a pending answer, and a function that ends it.
func (a *answers) begin(t *answerWriter, r *http.Request) (_ *http.Request, end func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last++
	number := strconv.FormatUint(a.last, 10)
	if a.open == nil {
		a.open = map[string]*answerWriter{}
	}
	a.open[number] = t
	return r.WithContext(context.WithValue(r.Context(), answerKey{}, number)), func() {
		a.mu.Lock()
		delete(a.open, number)
		a.mu.Unlock()
		t.done()
	}
}

// of returns the answer for a call of the gateway, or nil if the call is another's, or nobody waits any more.
func (a *answers) of(ctx context.Context) *answerWriter {
	number := ofGateway(ctx, gatewayAnswer)
	if number == "" {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.open[number]
}

// gatewayMetadata is the metadata of a request's call, including the client's trace. It follows any values of the
// request's headers under the same names.
func gatewayMetadata(ctx context.Context, r *http.Request) metadata.MD {
	number, _ := ctx.Value(answerKey{}).(string)
	md := metadata.Pairs(gatewayClient, r.RemoteAddr, gatewayAnswer, number)
	for _, name := range []string{tracing.Parent, tracing.State} {
		if value := r.Header.Get(name); value != "" {
			md.Set(name, value)
		}
	}
	return md
}

// ofGateway returns the gateway's metadata of a call under a name, "" for other calls.
func ofGateway(ctx context.Context, name string) string {
	if p, ok := peer.FromContext(ctx); !ok || p.Addr == nil || p.Addr.Network() != gatewayNetwork {
		return ""
	}
	values := metadata.ValueFromIncomingContext(ctx, name)
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}
