package etcdshim

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/internal/loglimit"
	"github.com/sqlstore/sqlstore/internal/store"
)

// shownKey is how much of a key is logged.
const shownKey = 256

// waiting are the calls whose duration depends on others, and the one that logs its own duration.
var waiting = map[string]bool{
	"/v3lockpb.Lock/Lock": true, "/v3electionpb.Election/Campaign": true, "/etcdserverpb.Maintenance/Defragment": true,
}

// slowCalls logs unary calls that exceed a threshold. If the database is slow all calls do, so only some are logged.
type slowCalls struct {
	threshold time.Duration
	log       *slog.Logger
	limit     loglimit.Limit
}

func newSlowCalls(o *Options) *slowCalls {
	return &slowCalls{threshold: o.WarningDuration, log: o.Logger, limit: loglimit.Limit{
		Lines:  10,
		Period: 10 * time.Second,
	}}
}

func (s *slowCalls) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any,
	error,
) {
	began := time.Now()
	resp, err := handle(ctx, req)
	if took := time.Since(began); took >= s.threshold && !waiting[info.FullMethod] {
		s.report(ctx, req, info.FullMethod, took, err)
	}
	return resp, err
}

func (s *slowCalls) report(ctx context.Context, req any, method string, took time.Duration, err error) {
	skipped, ok := s.limit.Allow()
	if !ok {
		return
	}
	attrs := []any{"method", method, "took", took, "threshold", s.threshold}
	if client := CallerAddress(Caller(ctx)); client != nil {
		attrs = append(attrs, "client", client.String())
	}
	attrs = append(attrs, describeRequest(req)...)
	attrs = append(attrs, "code", status.Code(err).String(), "not-logged-before", skipped)
	s.log.Warn("slow request", attrs...)
}

// describeRequest summarizes a request, without values.
func describeRequest(req any) []any {
	switch r := req.(type) {
	case *rangeRequest:
		attrs := append(keys(r.Key, r.End), "limit", r.Limit, "revision", r.Revision)
		return append(attrs, "serializable", r.Serializable, "count-only", r.CountOnly)
	case *putRequest:
		return append(keys(r.Key, nil), "bytes", r.wire)
	case *deleteRequest:
		return keys(r.Key, r.End)
	case *txnRequest:
		t := &r.decoded
		attrs := []any{"bytes", r.wire, "compares", len(t.Compare), "operations", max(len(t.Success), len(t.Failure))}
		for _, branch := range [][]store.Op{t.Success, t.Failure} {
			for i := range branch {
				if key := keysOf(&branch[i]); key != nil {
					return append(key, attrs...)
				}
			}
		}
		return attrs
	}
	return nil
}

// keysOf returns the keys of an operation, nil for a nested transaction.
func keysOf(op *store.Op) []any {
	switch {
	case op.Range != nil:
		return keys(op.Range.Key, op.Range.End)
	case op.Put != nil:
		return keys(op.Put.Key, nil)
	case op.Delete != nil:
		return keys(op.Delete.Key, op.Delete.End)
	}
	return nil
}

func keys(key, end []byte) []any {
	attrs := []any{"key", string(key[:min(len(key), shownKey)])}
	if end != nil {
		attrs = append(attrs, "range-end", string(end[:min(len(end), shownKey)]))
	}
	return attrs
}
