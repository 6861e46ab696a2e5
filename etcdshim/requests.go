package etcdshim

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sqlstore/sqlstore/internal/store"
)

// The requests of the KV service. wire is the size of the message.

type rangeRequest struct {
	store.RangeRequest
	reply rangeReply
}

func (r *rangeRequest) decode(b []byte) error { return decodeRange(b, &r.RangeRequest) }

type putRequest struct {
	store.PutRequest
	wire  int
	reply putReply
}

func (r *putRequest) decode(b []byte) error {
	r.wire = len(b)
	return decodePut(b, &r.PutRequest)
}

type deleteRequest struct {
	store.DeleteRequest
	wire  int
	reply deleteReply
}

func (r *deleteRequest) decode(b []byte) error {
	r.wire = len(b)
	return decodeDelete(b, &r.DeleteRequest)
}

type txnRequest struct {
	txnDecoder
	wire  int
	reply txnReply
}

func (r *txnRequest) decode(b []byte) error {
	r.wire = len(b)
	t := &r.decoded
	t.Compare, t.Success, t.Failure = r.compares[:0], r.success[:0], r.failure[:0]
	return r.txn(b, t, protowire.DefaultRecursionLimit-1)
}
