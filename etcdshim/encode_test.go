package etcdshim

import (
	"bytes"
	"math/rand/v2"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/sqlstore/sqlstore/internal/snapshot"
	"github.com/sqlstore/sqlstore/internal/store"
)

// random makes values that cover all lengths of the encoding.
type random struct{ *rand.Rand }

func (r random) number() int64 {
	switch r.IntN(4) {
	case 0:
		return 0
	case 1:
		return r.Int64N(200)
	case 2:
		return -r.Int64N(1 << 40)
	}
	return r.Int64() >> r.IntN(63)
}

func (r random) data() []byte {
	n := []int{0, 1, 20, 127, 128, 300, 20_000}[r.IntN(7)]
	b := bytes.Repeat([]byte{byte(r.Uint32())}, n)
	if n > 0 {
		b[r.IntN(n)]++
	}
	return b
}

func (r random) flag() bool { return r.IntN(2) == 0 }

func (r random) row() *store.Row {
	return &store.Row{
		Key: r.data(), Value: r.data(), ModRevision: r.number(), CreateRevision: r.number(), Version: r.number(),
		Lease:        r.number(),
		PrevRevision: r.number(), Ordinal: r.Int32(),
	}
}

func (r random) maybeRow() *store.Row {
	if r.flag() {
		return nil
	}
	return r.row()
}

func (r random) rows() []*store.Row {
	rows := make([]*store.Row, r.IntN(4))
	for i := range rows {
		rows[i] = r.row()
	}
	return rows
}

func (r random) rangeResult() *store.RangeResult {
	return &store.RangeResult{Rows: r.rows(), More: r.flag(), Count: r.number(), Revision: r.number()}
}

func (r random) txnResult(depth int) *store.TxnResult {
	t := &store.TxnResult{Succeeded: r.flag(), Revision: r.number()}
	for range r.IntN(4) {
		switch r.IntN(4) {
		case 0:
			t.Results = append(t.Results, store.OpResult{Range: r.rangeResult()})
		case 1:
			t.Results = append(t.Results, store.OpResult{Put: &store.PutResult{
				Prev:     r.maybeRow(),
				Revision: r.number(),
			}})
		case 2:
			t.Results = append(t.Results, store.OpResult{Delete: &store.DeleteResult{
				Deleted: r.number(),
				Prev:    r.rows(), Revision: r.number(),
			}})
		case 3:
			if depth > 0 {
				t.Results = append(t.Results, store.OpResult{Txn: r.txnResult(depth - 1)})
			}
		}
	}
	return t
}

func (r random) watchReply(id *identity) *watchReply {
	w := &watchReply{
		id: id, watch: r.number(), revision: r.number(), created: r.flag(), canceled: r.flag(), fragment: r.flag(),
		compact: r.number(),
		reason:  []string{"", "mvcc: watcher range is empty"}[r.IntN(2)],
	}
	for range r.IntN(4) {
		e := store.Event{Row: r.row(), Prev: r.maybeRow()}
		if r.flag() {
			e.Row = &store.Row{Key: r.data(), ModRevision: r.number(), Deleted: true}
		}
		w.events = append(w.events, e)
	}
	return w
}

func TestRepliesAreWhatProtobufWrites(t *testing.T) {
	c := newCodec()
	r := random{rand.New(rand.NewPCG(1, 2))}
	for range 2000 {
		id := newIdentity(r.Uint64()>>r.IntN(64), r.Uint64()>>r.IntN(64), r.Uint64N(3))
		rng := rangeReply{id, r.rangeResult()}
		chunk := chunkReply{rangeReply{nil, r.rangeResult()}}
		if r.flag() {
			chunk.id = id
		}
		put := putReply{id, &store.PutResult{Prev: r.maybeRow(), Revision: r.number()}}
		del := deleteReply{id, &store.DeleteResult{Deleted: r.number(), Prev: r.rows(), Revision: r.number()}}
		txn := txnReply{id, r.txnResult(4)}
		watch := r.watchReply(id)
		part := snapshotReply{r.number(), r.data()}
		for _, pair := range []struct {
			reply reply
			want  proto.Message
		}{
			{&rng, rng.proto()},
			{&chunk, &pb.RangeStreamResponse{RangeResponse: chunk.proto()}},
			{&put, put.proto()},
			{&del, del.proto()},
			{&txn, txn.proto()},
			{watch, watch.proto()},
			{&part, &pb.SnapshotResponse{
				RemainingBytes: uint64(part.remaining), Blob: part.blob, Version: snapshot.StorageVersion,
			}},
		} {
			want, err := proto.Marshal(pair.want)
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.Marshal(pair.reply)
			if err != nil {
				t.Fatal(err)
			}
			if b := got.Materialize(); !bytes.Equal(b, want) {
				t.Fatalf("%T\ngot  %x\nwant %x", pair.reply, b, want)
			}
			got.Free()
		}
	}
}

// Buffers return from the pool with old contents, and no reply may show any of them.
func TestPoolLendsWhatFits(t *testing.T) {
	var p bufferPool
	for _, n := range []int{0, 1, 1024, 1025, 2048, 2049, 1 << 20, 1<<20 + 1, 5 << 20} {
		for range 3 {
			b := p.Get(n)
			if len(*b) != n {
				t.Fatalf("Get(%d) has length %d", n, len(*b))
			}
			if n > 1024 && n <= 1<<20 && cap(*b) > 2*n {
				t.Errorf("Get(%d) takes %d bytes", n, cap(*b))
			}
			mem.NewBuffer(b, &p).Free()
		}
	}
}
