// Package durability finds out whether servers keep what they acknowledge, across kills, lost disks and failovers.
// Clients write with [Load], and record each request and its answer in a [Record]. [Record.Verify] reads an idle
// server's history afterwards and passes both to the checks of package history:
//
//   - every acknowledged write exists, at the revision in its answer; one without an answer exists once or not at all,
//     completely; a refused one does not exist; and every revision belongs to a write;
//   - reads under load, and reads of everything at the newest and at an older revision, show that history, and no
//     answer is older than one before it;
//   - watches that resume after the last revision they saw neither miss nor repeat an event;
//   - leases and their keys exist until they are revoked.
//
// Nobody else may write to the servers. For tests only.
package durability

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"strings"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/test/support/history"
)

// Record has what clients requested and were answered since the servers' history was last verified. [New] makes one.
// Any goroutine may call its methods, but no other one while Watch or Verify runs.
type Record struct {
	*history.Journal
	// Pad makes the values longer, by a number of bytes below Pad that differs from write to write.
	Pad int
	// Rev is the revision up to which the history is verified, Base the content of the keys at it.
	Rev  int64
	Base history.Base

	watchers []*watcher
	acked    atomic.Int64
	lease    atomic.Int64 // the newest
	alive    chan int64   // leases with their key, available to be revoked
}

// New returns the record of empty servers.
func New() *Record {
	const most = 1000
	return &Record{Journal: history.NewJournal(), Rev: 1, Base: history.Base{}, alive: make(chan int64, most)}
}

// Acknowledged returns how many writes, and grants and revocations of leases, have been acknowledged.
func (r *Record) Acknowledged() int { return int(r.acked.Load()) }

// AwaitMore returns when n more of those have been acknowledged.
func (r *Record) AwaitMore(ctx context.Context, n int) error {
	before := r.Acknowledged()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for r.Acknowledged() < before+n {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d writes acknowledged, waiting for %d: %w", r.Acknowledged()-before, n, ctx.Err())
		}
	}
	return nil
}

// All is the read of all keys at a revision, 0 for the newest.
func All(at int64) history.Op { return history.Op{Kind: history.List, Keys: []string{""}, At: at} }

// Do sends an operation, and records how it ends.
func (r *Record) Do(ctx context.Context, conn *grpc.ClientConn, op history.Op) (*history.Op, error) {
	o := r.Begin(op)
	header, done, found, err := r.send(ctx, pb.NewKVClient(conn), pb.NewLeaseClient(conn), o)
	r.End(o, func(o *history.Op) {
		if err != nil {
			o.Err = status.Code(err).String()
			return
		}
		o.Outcome, o.Revision, o.Found = history.Refused, header.GetRevision(), found
		if done {
			o.Outcome = history.Done
		}
	})
	if o.Outcome == history.Done && (o.Kind.Writes() || o.Kind == history.Revoke) {
		r.acked.Add(1)
	}
	return o, err
}

// send returns what the answer says, and whether the operation is done rather than refused.
func (r *Record) send(ctx context.Context, kv pb.KVClient, leases pb.LeaseClient, o *history.Op) (
	header *pb.ResponseHeader, done bool, found []history.KV, err error,
) {
	switch o.Kind {
	case history.Get, history.List:
		req := &pb.RangeRequest{Key: []byte(o.Keys[0]), Revision: o.At}
		if o.Kind == history.List {
			req.Key, req.RangeEnd = span(o.Keys[0])
		}
		resp, err := kv.Range(ctx, req)
		for _, kv := range resp.GetKvs() {
			found = append(found, r.event(&mvccpb.Event{Kv: kv}).KV())
		}
		return resp.GetHeader(), true, found, err
	case history.Delete:
		resp, err := kv.DeleteRange(ctx, &pb.DeleteRangeRequest{Key: []byte(o.Keys[0])})
		return resp.GetHeader(), resp.GetDeleted() > 0, nil, err
	case history.Revoke:
		resp, err := leases.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: o.Lease})
		return resp.GetHeader(), true, nil, err
	}
	txn := &pb.TxnRequest{}
	for _, key := range o.Keys {
		put := &pb.PutRequest{Key: []byte(key), Value: r.value(o.Value), Lease: o.Lease}
		if o.Kind == history.Put && len(o.Keys)+len(o.Deletes) == 1 {
			resp, err := kv.Put(ctx, put)
			return resp.GetHeader(), true, nil, err
		}
		txn.Success = append(txn.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: put}})
	}
	for _, key := range o.Deletes {
		txn.Success = append(txn.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{
			RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(key)},
		}})
	}
	if o.Kind == history.Swap {
		txn.Compare = []*pb.Compare{{
			Key: []byte(o.Keys[0]), Target: pb.Compare_MOD,
			TargetUnion: &pb.Compare_ModRevision{ModRevision: o.Expect},
		}}
	}
	resp, err := kv.Txn(ctx, txn)
	return resp.GetHeader(), resp.GetSucceeded(), nil, err
}

// value returns what a write puts: the value that the history knows it by, and padding.
func (r *Record) value(known string) []byte {
	padding := 0
	if r.Pad > 0 {
		padding = int(crc32.ChecksumIEEE([]byte(known)) % uint32(r.Pad))
	}
	return []byte(known + strings.Repeat(".", padding))
}

// known returns what the history knows a value by. It describes a value that no write puts.
func (r *Record) known(value []byte) string {
	known := string(bytes.TrimRight(value, "."))
	if !bytes.Equal(value, r.value(known)) {
		return fmt.Sprintf("%.40q of %d bytes", value, len(value))
	}
	return known
}

// event returns an event as the history knows it.
func (r *Record) event(e *mvccpb.Event) history.Event {
	out := history.Event{
		Key: string(e.Kv.Key), Deleted: e.Type == mvccpb.DELETE, Revision: e.Kv.ModRevision,
		Create: e.Kv.CreateRevision, Version: e.Kv.Version, Lease: e.Kv.Lease,
	}
	if !out.Deleted || len(e.Kv.Value) > 0 {
		out.Value = r.known(e.Kv.Value)
	}
	if e.PrevKv != nil {
		out.Prev = r.event(&mvccpb.Event{Kv: e.PrevKv}).KV()
	}
	return out
}

// span returns the range of a prefix, whose last byte is below 0xff.
func span(prefix string) (key, end []byte) {
	if prefix == "" {
		return []byte{0}, []byte{0} // all keys
	}
	key, end = []byte(prefix), []byte(prefix)
	end[len(end)-1]++
	return key, end
}
