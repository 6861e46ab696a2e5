package sqlstore_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// A start on etcd's data directory is refused, and leaves it as it is.
func TestEtcdDataIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "member", "snap"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]sqlstore.Config{
		"data directory": {DataDir: dir},
		"datastore":      {Datastore: "sqlite://" + filepath.Join(dir, "store.db")},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := sqlstore.Start(t.Context(), cfg)
			if err == nil {
				_ = s.Close()
			}
			if !errors.Is(err, sqlstore.ErrEtcdData) || !strings.Contains(err.Error(), "sqlstore import") {
				t.Errorf("got %v", err)
			}
		})
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v, %v", entries, err)
	}
}

// An empty database elsewhere is not served while the data directory is etcd's. One with data is.
func TestEtcdDirectoryBesideDatastore(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "member", "snap"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, datastore := range map[string]string{
		"SQLite":   "sqlite://" + filepath.Join(t.TempDir(), "store.db"),
		"Postgres": pgserver.Database(t),
	} {
		t.Run(name, func(t *testing.T) {
			cfg := sqlstore.Config{DataDir: dir, Datastore: datastore}
			for range 2 {
				s, err := sqlstore.Start(t.Context(), cfg)
				if err == nil {
					_ = s.Close()
				}
				if !errors.Is(err, sqlstore.ErrEtcdData) || !strings.Contains(err.Error(), "sqlstore import") {
					t.Fatalf("got %v", err)
				}
			}
			s, client := start(t, sqlstore.Config{Datastore: datastore})
			if _, err := client.Put(t.Context(), "a", "b"); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			start(t, cfg)
		})
	}
}

// A store that was there before etcd's directory is still served.
func TestStoreBesideEtcdData(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		s, err := sqlstore.Start(t.Context(), sqlstore.Config{DataDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(dir, "member"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}
