package etcdshim

import (
	"math"
	"runtime"

	"google.golang.org/grpc/mem"

	"github.com/sqlstore/sqlstore/internal/store"
)

// countedBytes is the number of bytes of a reply after which it is noted that they have been sent.
const countedBytes = 256 << 10

// countSent returns data that reports to account how much of it gRPC has sent, or discarded. Between its buffers it
// puts empty ones, each of which reports the bytes before it when it is freed. It then also forgets the buffers before
// it, which gRPC would refer to until all is sent.
func countSent(data mem.BufferSlice, account *store.Account) mem.BufferSlice {
	all := &sent{account: account}
	// When a connection breaks, gRPC drops some unsent data without freeing it.
	runtime.AddCleanup(all, func(k *store.Account) { k.Release(math.MaxInt64) }, account)
	out := make(mem.BufferSlice, 0, len(data)+data.Len()/countedBytes+1)
	since, first := int64(0), 0
	for i, b := range data {
		out = append(out, b)
		if since += int64(b.Len()); i == len(data)-1 {
			since = math.MaxInt64 // all that is left
		}
		if since >= countedBytes {
			out = append(out, mem.NewBuffer(&nothing, &mark{all, since, out[first:]}))
			since, first = 0, len(out)
		}
	}
	return out
}

// nothing is empty, but has enough capacity that gRPC counts its references.
var nothing = make([]byte, 0, 2<<10)

// sent is what the marks of a reply share. It is large so that few are neighbours in memory: adding a cleanup walks
// past the cleanups of all neighbours.
type sent struct {
	account *store.Account
	_       [1 << 10]byte
}

// mark is the pool to which an empty buffer returns, when all who refer to it and the buffers before it have freed them
// in their order.
type mark struct {
	of     *sent
	bytes  int64
	before mem.BufferSlice
}

func (m *mark) Get(n int) *[]byte {
	b := make([]byte, n)
	return &b
}

func (m *mark) Put(*[]byte) {
	for i := range m.before {
		m.before[i] = mem.SliceBuffer(nil)
	}
	m.of.account.Release(m.bytes)
}
