package etcdshim

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/sqlstore/sqlstore/internal/store"
)

// TestLargeReplyIsTheSame compares the encoding that does not copy values with the one that does.
func TestLargeReplyIsTheSame(t *testing.T) {
	r := random{rand.New(rand.NewPCG(7, 7))}
	for range 50 {
		res := &store.RangeResult{Revision: r.number(), Count: r.number(), More: r.flag()}
		for range r.IntN(200) {
			res.Rows = append(res.Rows, r.row())
		}
		for _, re := range []reply{
			&rangeReply{newIdentity(1, 2, 3), res},
			&chunkReply{rangeReply{newIdentity(1, 2, 3), res}},
			&deleteReply{newIdentity(1, 2, 3), &store.DeleteResult{Revision: r.number(), Prev: res.Rows}},
			&txnReply{newIdentity(1, 2, 3), &store.TxnResult{Results: []store.OpResult{
				{Range: res},
				{Put: &store.PutResult{Prev: r.row()}},
				{Put: &store.PutResult{}},
				{Delete: &store.DeleteResult{Prev: res.Rows}},
				{Txn: &store.TxnResult{Succeeded: true, Results: []store.OpResult{{Range: res}}}},
			}}},
		} {
			n := re.size()
			w := newWriter(make([]byte, n))
			re.write(&w)
			got, err := marshalLarge(re, re.(large), n)
			if err != nil {
				t.Fatal(err)
			}
			if got.Len() != n || !bytes.Equal(got.Materialize(), w.b) {
				t.Fatalf("%T of %d rows: %d bytes differ from the %d of the copying encoder", re, len(res.Rows),
					got.Len(), n)
			}
		}
	}
}
