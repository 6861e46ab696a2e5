package etcdshim

import (
	"context"
	"net/http"
	"strconv"
	"sync"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// What the gateway sends the server with each call: the client's address, and the number of the answer.
const (
	gatewayClient = "gateway-client"
	gatewayAnswer = "gateway-answer"
)

// gatewayNetwork is the network of the gateway's connection to the server, and of no other.
const gatewayNetwork = "in-process"

// answers are those that the gateway waits for, by their numbers. They are in the process of who makes them, and so
// what an answer takes counts from when it is made until its client has it.
type answers struct {
	mu   sync.Mutex
	last uint64
	open map[string]*taken
}

type answerKey struct{}

// begin returns r with an answer to come, and what ends it.
func (a *answers) begin(t *taken, r *http.Request) (_ *http.Request, end func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last++
	number := strconv.FormatUint(a.last, 10)
	if a.open == nil {
		a.open = map[string]*taken{}
	}
	a.open[number] = t
	return r.WithContext(context.WithValue(r.Context(), answerKey{}, number)), func() {
		a.mu.Lock()
		delete(a.open, number)
		a.mu.Unlock()
		t.done()
	}
}

// of returns the answer that a call of the gateway's is for, nil where it is another's, or nobody waits any more.
func (a *answers) of(ctx context.Context) *taken {
	number := ofGateway(ctx, gatewayAnswer)
	if number == "" {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.open[number]
}

// gatewayMetadata is what a request's call carries. It comes behind what the request's headers may have under the same
// names.
func gatewayMetadata(ctx context.Context, r *http.Request) metadata.MD {
	number, _ := ctx.Value(answerKey{}).(string)
	return metadata.Pairs(gatewayClient, r.RemoteAddr, gatewayAnswer, number)
}

// ofGateway returns what a call of the gateway's carries under a name, "" for other calls.
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
