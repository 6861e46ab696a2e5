package etcdshim

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store"
)

func put(key string) store.Op { return store.Op{Put: &store.PutRequest{Key: []byte(key)}} }
func get(key string) store.Op { return store.Op{Range: &store.RangeRequest{Key: []byte(key)}} }
func del(key, end string) store.Op {
	return store.Op{Delete: &store.DeleteRequest{Key: []byte(key), End: []byte(end)}}
}
func ops(o ...store.Op) []store.Op     { return o }
func txn(success ...store.Op) store.Op { return store.Op{Txn: &store.Txn{Success: success}} }
func either(a, b []store.Op) store.Op  { return store.Op{Txn: &store.Txn{Success: a, Failure: b}} }
func times(n int, o store.Op) (l []store.Op) {
	for range n {
		l = append(l, o)
	}
	return l
}

func nest(depth int) store.Op {
	o := get("a")
	for range depth {
		o = txn(o)
	}
	return o
}

func TestCheckTxn(t *testing.T) {
	duplicate, tooMany := rpctypes.ErrGRPCDuplicateKey, rpctypes.ErrGRPCTooManyOps
	for name, c := range map[string]struct {
		txn  store.Txn
		want error
	}{
		"empty":                   {store.Txn{}, nil},
		"128 operations":          {store.Txn{Success: times(128, get("a"))}, nil},
		"129 operations":          {store.Txn{Success: times(129, get("a"))}, tooMany},
		"129 in the other branch": {store.Txn{Failure: times(129, get("a"))}, tooMany},
		"129 compares":            {store.Txn{Compare: make([]store.Compare, 129)}, tooMany},
		"depth 127":               {store.Txn{Success: ops(nest(127))}, nil},
		"depth 128":               {store.Txn{Success: ops(nest(128))}, tooMany},
		"outer 100, inner 28":     {store.Txn{Success: append(times(99, get("a")), txn(times(28, get("a"))...))}, nil},
		"outer 100, inner 29": {
			store.Txn{Success: append(times(99, get("a")), txn(times(29, get("a"))...))},
			tooMany,
		},
		"compare without key": {
			store.Txn{Compare: make([]store.Compare, 1), Success: ops(store.Op{})},
			rpctypes.ErrGRPCEmptyKey,
		},
		"operation without request": {
			store.Txn{Failure: ops(store.Op{})}, rpctypes.ErrGRPCKeyNotFound,
		},
		"put without key":    {store.Txn{Success: ops(put(""))}, rpctypes.ErrGRPCEmptyKey},
		"delete without key": {store.Txn{Success: ops(del("", ""))}, rpctypes.ErrGRPCEmptyKey},
		"range without key":  {store.Txn{Failure: ops(txn(get("")))}, rpctypes.ErrGRPCEmptyKey},
		"bad sort": {
			store.Txn{Success: ops(store.Op{Range: &store.RangeRequest{Key: []byte("a"), Order: 3}})},
			rpctypes.ErrGRPCInvalidSortOption,
		},
		"value ignored and given": {
			store.Txn{Success: ops(store.Op{Put: &store.PutRequest{
				Key: []byte("a"), Value: []byte("v"),
				IgnoreValue: true,
			}})},
			rpctypes.ErrGRPCValueProvided,
		},
		"lease ignored and given": {
			store.Txn{Success: ops(store.Op{Put: &store.PutRequest{Key: []byte("a"), Lease: 1, IgnoreLease: true}})},
			rpctypes.ErrGRPCLeaseProvided,
		},
		"same put twice":            {store.Txn{Success: ops(put("a"), put("a"))}, duplicate},
		"same put in both branches": {store.Txn{Success: ops(put("a")), Failure: ops(put("a"))}, nil},
		"put in failure's duplicate": {
			store.Txn{Success: ops(put("a")), Failure: ops(put("a"), put("a"))},
			duplicate,
		},
		"put and delete":                {store.Txn{Success: ops(put("a"), del("a", ""))}, duplicate},
		"put and delete of a range":     {store.Txn{Success: ops(put("b"), del("a", "c"))}, duplicate},
		"put at a deleted range's end":  {store.Txn{Success: ops(put("c"), del("a", "c"))}, nil},
		"put in a range without an end": {store.Txn{Success: ops(put("b"), del("a", "\x00"))}, nil}, // as etcd has it
		"deletes twice":                 {store.Txn{Success: ops(del("a", ""), del("a", "b"))}, nil},
		"puts in siblings":              {store.Txn{Success: ops(txn(put("a")), txn(put("a")))}, duplicate},
		"put in nested branches":        {store.Txn{Success: ops(either(ops(put("a")), ops(put("a"))))}, nil},
		"put after nested put":          {store.Txn{Success: ops(txn(put("a")), put("a"))}, duplicate},
		"nested put in a deleted range": {store.Txn{Success: ops(del("a", "c"), txn(put("b")))}, duplicate},
		"put in a nested delete":        {store.Txn{Success: ops(put("b"), txn(del("a", "c")))}, duplicate},
		"put, then sibling's delete":    {store.Txn{Success: ops(txn(put("a")), txn(del("a", "")))}, nil},
		"delete, then sibling's put":    {store.Txn{Success: ops(txn(del("a", "")), txn(put("a")))}, duplicate},
		"delete far below, then put": {
			store.Txn{Success: ops(txn(txn(either(nil, ops(del("a", ""))))), put("a"))},
			duplicate,
		},
		"put in else, then sibling's": {
			store.Txn{Success: ops(either(nil, ops(put("a"))), txn(put("a")))},
			duplicate,
		},
		"counts go before the keys": {
			store.Txn{Compare: make([]store.Compare, 129), Success: ops(put(""))},
			tooMany,
		},
		"the first operation that fails": {store.Txn{Success: ops(put(""), store.Op{})}, rpctypes.ErrGRPCEmptyKey},
		"syntax goes before duplicates": {
			store.Txn{Success: ops(put("a"), put("a")), Failure: ops(store.Op{})},
			rpctypes.ErrGRPCKeyNotFound,
		},
	} {
		if err := checkTxn(&c.txn, defaultMaxTxnOps); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestCheckRangeStream(t *testing.T) {
	a := []byte("a")
	for name, c := range map[string]struct {
		req  store.RangeRequest
		want error
	}{
		"plain":                    {store.RangeRequest{Key: a}, nil},
		"ascending keys":           {store.RangeRequest{Key: a, Order: store.SortAscend}, nil},
		"no order, another target": {store.RangeRequest{Key: a, Target: store.SortMod}, nil},
		"descending keys":          {store.RangeRequest{Key: a, Order: store.SortDescend}, errStreamSort},
		"by value": {
			store.RangeRequest{Key: a, Order: store.SortAscend, Target: store.SortValue},
			errStreamSort,
		},
		"filter":          {store.RangeRequest{Key: a, MaxCreateRev: 1}, errStreamFilter},
		"negative filter": {store.RangeRequest{Key: a, MinModRev: -1}, errStreamFilter},
		"no key":          {store.RangeRequest{MinModRev: 1}, rpctypes.ErrGRPCEmptyKey},
		"negative target": {store.RangeRequest{Key: a, Target: -1}, rpctypes.ErrGRPCInvalidSortOption},
	} {
		if err := checkRangeStream(&c.req); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestStatusError(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		err  error
		code codes.Code
		text string
	}{
		{t.Context(), nil, codes.OK, ""},
		{t.Context(), store.ErrCompacted, codes.OutOfRange, "etcdserver: mvcc: required revision has been compacted"},
		{
			t.Context(), fmt.Errorf("read: %w", store.ErrFutureRevision), codes.OutOfRange,
			"etcdserver: mvcc: required revision is a future revision",
		},
		{t.Context(), store.ErrKeyNotFound, codes.InvalidArgument, "etcdserver: key not found"},
		{t.Context(), store.ErrLeaseNotFound, codes.NotFound, "etcdserver: requested lease not found"},
		{t.Context(), store.ErrLeaseExists, codes.FailedPrecondition, "etcdserver: lease already exists"},
		{t.Context(), store.ErrLeaseTTL, codes.OutOfRange, "etcdserver: too large lease TTL"},
		{t.Context(), store.ErrQuota, codes.ResourceExhausted, "etcdserver: mvcc: database space exceeded"},
		{
			t.Context(), fmt.Errorf("commit: %w", backend.ErrNoSpace), codes.ResourceExhausted,
			"etcdserver: mvcc: database space exceeded",
		},
		{t.Context(), store.ErrTooManyRequests, codes.ResourceExhausted, "etcdserver: too many requests"},
		{t.Context(), store.ErrUnavailable, codes.Unavailable, "etcdserver: request timed out"},
		{
			t.Context(), fmt.Errorf("begin: %w", &backend.Refusal{Reason: "the file was replaced", Advice: "restart"}),
			codes.Unavailable, "etcdserver: the file was replaced",
		},
		{t.Context(), backend.ErrUnknownOutcome, codes.Unavailable, "etcdserver: request timed out"},
		{t.Context(), store.ErrClosed, codes.Unavailable, "etcdserver: server stopped"},
		{t.Context(), store.ErrWatchClosed, codes.Unavailable, "etcdserver: server stopped"},
		{t.Context(), context.Canceled, codes.Unavailable, "etcdserver: server stopped"},
		{
			t.Context(), fmt.Errorf("%w: %w", store.ErrUnavailable, context.DeadlineExceeded), codes.Unavailable,
			"etcdserver: request timed out",
		},
		{t.Context(), context.DeadlineExceeded, codes.Unavailable, "etcdserver: request timed out"},
		{ended, fmt.Errorf("read: %w", context.Canceled), codes.Canceled, "context canceled"},
		{pastDeadline{ended}, context.Canceled, codes.DeadlineExceeded, "context deadline exceeded"},
		{
			t.Context(), fmt.Errorf("%w: more than 5", store.ErrTxnTooLarge), codes.InvalidArgument,
			"etcdserver: one transaction touches too many rows; delete or read the range in parts",
		},
		{
			t.Context(), fmt.Errorf("read: %w", store.ErrResultTooLarge), codes.ResourceExhausted,
			"etcdserver: the result exceeds 2147483647 bytes; set a limit, or read the range in parts",
		},
		{t.Context(), rpctypes.ErrGRPCEmptyKey, codes.InvalidArgument, "etcdserver: key is not provided"},
		{t.Context(), errors.New("anything else"), codes.Unknown, "anything else"},
	} {
		s := status.Convert(statusError(c.ctx, c.err))
		if s.Code() != c.code || s.Message() != c.text {
			t.Errorf("%v: %v %q, want %v %q", c.err, s.Code(), s.Message(), c.code, c.text)
		}
	}
}

// pastDeadline is a context that gRPC has cancelled at its deadline, before its own timer did.
type pastDeadline struct{ context.Context }

func (pastDeadline) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }
