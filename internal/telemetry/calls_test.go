package telemetry_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/internal/telemetry"
)

var (
	txnInfo    = &grpc.UnaryServerInfo{FullMethod: "/etcdserverpb.KV/Txn"}
	rangeInfo  = &grpc.UnaryServerInfo{FullMethod: "/etcdserverpb.KV/Range"}
	grantInfo  = &grpc.UnaryServerInfo{FullMethod: "/etcdserverpb.Lease/LeaseGrant"}
	defragInfo = &grpc.UnaryServerInfo{FullMethod: "/etcdserverpb.Maintenance/Defragment"}
	refused    = status.Error(codes.InvalidArgument, "no")
)

func succeeds(context.Context, any) (any, error) { return nil, nil } //nolint:nilnil // the messages are not looked at
func fails(context.Context, any) (any, error)    { return nil, refused }

// Counting is part of every call, which takes about 25 us in total: it must not allocate.
func TestCountingDoesNotAllocate(t *testing.T) {
	m := telemetry.New(telemetry.Config{Version: "3.7.3", Extensive: true})
	unary, ctx := m.Unary(), t.Context()
	batch := store.Batch{Granted: make([]backend.Lease, 1), Operations: 3, Puts: 2, Deletes: 1, ValueBytes: 2048}
	for name, count := range map[string]func(){
		"call":        func() { _, _ = unary(ctx, nil, txnInfo, succeeds) },
		"failed call": func() { _, _ = unary(ctx, nil, txnInfo, fails) },
		"batch":       func() { m.Batch(batch) },
		"events":      func() { m.Events(3) },
	} {
		if n := testing.AllocsPerRun(100, count); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// BenchmarkUnary is what the interceptor adds to a call; in parallel, as all processors count into the same numbers.
func BenchmarkUnary(b *testing.B) {
	for _, extensive := range []bool{false, true} {
		name := map[bool]string{false: "basic", true: "extensive"}[extensive]
		unary := telemetry.New(telemetry.Config{Version: "3.7.3", Extensive: extensive}).Unary()
		ctx := b.Context()
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = unary(ctx, nil, txnInfo, succeeds)
			}
		})
		b.Run(name+"/parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					_, _ = unary(ctx, nil, txnInfo, succeeds)
				}
			})
		})
	}
}

func BenchmarkBatch(b *testing.B) {
	m := telemetry.New(telemetry.Config{Version: "3.7.3"})
	b.ReportAllocs()
	for b.Loop() {
		m.Batch(store.Batch{Operations: 3, Puts: 2, Deletes: 1, ValueBytes: 2048})
	}
}
