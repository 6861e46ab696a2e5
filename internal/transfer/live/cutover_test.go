package live_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/sqlite"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/transfer"
	"github.com/sqlstore/sqlstore/internal/transfer/live"
)

// writtenTo is a target whose source is written to while the remaining time of leases is stored.
type writtenTo struct {
	backend.Backend

	write func() error
}

func (w *writtenTo) SetRemaining(
	ctx context.Context, was backend.Import, remaining map[int64]time.Duration,
) error {
	return errors.Join(w.write(), w.Backend.SetRemaining(ctx, was, remaining))
}

// A write that comes at the end of a cut-over makes it fail, instead of being lost.
func TestWriteDuringCutover(t *testing.T) {
	const following = 4711
	s := launch.Start(t, launch.Config{})
	source, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	server := &live.Server{Endpoint: s.ClientURL()}
	snapshot := filepath.Join(t.TempDir(), "snapshot.db")
	if err := live.Save(t.Context(), server, snapshot); err != nil {
		t.Fatal(err)
	}
	from, err := live.Open(t.Context(), server, snapshot)
	if err != nil {
		t.Fatal(err)
	}
	b, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "sqlstore.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	_, err = transfer.Load(t.Context(), b, from, transfer.Options{Mark: 1, Follow: following})
	if err := errors.Join(err, from.Close()); err != nil {
		t.Fatal(err)
	}
	cutOver := func(write func() error) error {
		to, err := transfer.Resume(t.Context(), &writtenTo{b, write}, following)
		if err != nil {
			t.Fatal(err)
		}
		_, err = live.CutOver(t.Context(), server, to, live.Options{
			Quiet: time.Millisecond, Snapshot: filepath.Join(t.TempDir(), "snapshot.db"),
		})
		return err
	}
	err = cutOver(func() error {
		_, err := source.Put(t.Context(), "late", "")
		return err
	})
	if !errors.Is(err, backend.ErrSource) || !strings.Contains(err.Error(), "written to during the cut-over") {
		t.Errorf("a cut-over during a write: %v", err)
	}
	if err := cutOver(func() error { return nil }); err != nil {
		t.Error(err)
	}
}
