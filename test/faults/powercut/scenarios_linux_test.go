package powercut

import (
	"context"
	"path"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/test/faults/powercut/disk"
)

// scenario is what happens when the power is cut.
type scenario struct {
	name       string
	matches    func(disk.Kind, string) bool // the operations that count; nil for all
	operations int                          // the highest number of the one that is cut
	// act is called under load, just after operations begin to count; it may be nil.
	act func(ctx context.Context, l *life, conn *grpc.ClientConn) error
	// ends cuts the power after act at the latest.
	ends bool
	// fails makes the operation, a sync of a file, fail. The server is stopped before the power is cut.
	fails bool
}

// on selects operations of one kind on paths that end so.
func on(kind disk.Kind, suffix string) func(disk.Kind, string) bool {
	return func(k disk.Kind, path string) bool { return k == kind && strings.HasSuffix(path, suffix) }
}

// below selects operations of one kind in a directory.
func below(kind disk.Kind, dir string) func(disk.Kind, string) bool {
	return func(k disk.Kind, name string) bool { return k == kind && strings.HasPrefix(name, dir+"/") }
}

// entries selects changes of entries, and the syncs of directories that save them.
func entries(kind disk.Kind, _ string) bool { return kind >= disk.SyncDir }

// onFile selects all operations on files of a name.
func onFile(base string) func(disk.Kind, string) bool {
	return func(_ disk.Kind, name string) bool { return path.Base(name) == base }
}

// onSQLite and onPostgres are the scenarios. A cut that is aimed at what does not happen comes at the end of the load.
var (
	onSQLite = []scenario{
		{name: "load", operations: 600},
		{name: "long load", operations: 6000},
		{name: "sync of the log", matches: on(disk.Sync, "-wal"), operations: 60},
		{name: "write to the log", matches: on(disk.Write, "-wal"), operations: 400},
		{name: "checkpoint", matches: on(disk.Write, ".db"), operations: 150},
		{name: "sync of the file", matches: on(disk.Sync, ".db"), operations: 15},
		{name: "note", matches: on(disk.Write, ".lock"), operations: 1},
		{name: "purge", operations: 150, act: compact},
		{name: "defragmentation", operations: 120, act: defragment, ends: true},
		{name: "copy of a defragmentation", matches: on(disk.Write, ".defragment"), operations: 20, act: defragment},
		{name: "shutdown", operations: 25, act: shutDown, ends: true},
	}
	failedSyncs = []scenario{
		{name: "file", matches: on(disk.Sync, ".db"), operations: 12, fails: true},
		{name: "log", matches: on(disk.Sync, "-wal"), operations: 60, fails: true},
		{name: "defragmentation", matches: on(disk.Sync, ".db"), operations: 4, act: defragment, fails: true},
	}
	onPostgres = []scenario{
		{name: "load", operations: 150},
		{name: "sync of the log", matches: below(disk.Sync, "/data/pg_wal"), operations: 25},
		{name: "write to the log", matches: below(disk.Write, "/data/pg_wal"), operations: 40},
		{name: "next file of the log", matches: func(k disk.Kind, name string) bool {
			return entries(k, name) && strings.HasPrefix(name, "/data/pg_wal")
		}, operations: 4, act: checkpoint},
		{name: "entries", matches: entries, operations: 3, act: checkpoint},
		{name: "checkpoint", operations: 60, act: checkpoint, ends: true},
		{name: "tables", matches: below(disk.Write, "/data/base"), operations: 15, act: checkpoint},
		{name: "control file", matches: onFile("pg_control"), operations: 2, act: checkpoint, ends: true},
		{name: "purge", operations: 60, act: compact},
		{name: "defragmentation", operations: 100, act: defragment, ends: true},
	}
)

// compact drops history that has been checked.
func compact(ctx context.Context, l *life, conn *grpc.ClientConn) error {
	rev := l.record.Rev - int64(l.IntN(2))
	if rev <= l.compacted {
		return nil
	}
	_, err := pb.NewKVClient(conn).Compact(ctx, &pb.CompactionRequest{Revision: rev})
	if status.Code(err) == codes.OutOfRange {
		return nil // an earlier one without an answer has done it
	}
	if err == nil {
		l.compacted = rev
	}
	return err
}

func defragment(ctx context.Context, _ *life, conn *grpc.ClientConn) error {
	_, err := pb.NewMaintenanceClient(conn).Defragment(ctx, &pb.DefragmentRequest{})
	return err
}

func checkpoint(ctx context.Context, l *life, _ *grpc.ClientConn) error {
	return l.database.checkpoint(ctx)
}

// shutDown returns when the server has ended.
func shutDown(ctx context.Context, l *life, _ *grpc.ClientConn) error {
	if err := l.servers[0].terminate(); err != nil {
		return err
	}
	<-ctx.Done() // which the end of the server ends
	return nil
}
