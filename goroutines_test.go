package sqlstore_test

import (
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"testing"

	"gocloud.dev/blob/memblob"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/compactor"
)

// Tests start many temporary servers in one process; each must cost little while it is idle.
func TestTemporaryServerHasFewGoroutines(t *testing.T) {
	const servers, most = 5, 50
	before := runtime.NumGoroutine()
	for range servers {
		start(t, sqlstore.Config{})
	}
	if n := (runtime.NumGoroutine() - before) / servers; n > most {
		t.Errorf("%d goroutines a server and its client, want at most %d", n, most)
	}
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		s, err := sqlstore.Start(b.Context(), sqlstore.Config{})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// A start that fails leaves nothing running, at whatever step it fails.
func TestFailedStartReleasesEverything(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dir := t.TempDir()
	start(t, sqlstore.Config{DataDir: filepath.Join(dir, "used")})
	bucket := memblob.OpenBucket(nil)
	defer bucket.Close()
	inUse := []string{"http://" + listener.Addr().String()}
	audit := filepath.Join(dir, "audit")
	for step, cfg := range map[string]sqlstore.Config{
		"TLS files":           {TLS: sqlstore.TLSFiles{Cert: "missing", Key: "missing"}},
		"tokens":              {AuthToken: "none"},
		"audit log":           {AuditLog: filepath.Join(dir, "missing", "audit")},
		"origins":             {AuditLog: audit, CORS: []string{"no origin"}},
		"advertised URLs":     {AuditLog: audit, AdvertiseClientURLs: []string{"nothing"}},
		"client listeners":    {ListenClientURLs: append([]string{"http://127.0.0.1:0"}, inUse...)},
		"HTTP listeners":      {ListenClientHTTPURLs: inUse},
		"metrics listeners":   {ListenMetricsURLs: inUse},
		"objects listeners":   {ListenObjectsURLs: inUse},
		"database in use":     {DataDir: filepath.Join(dir, "used")},
		"compaction settings": {Compaction: compactor.Config{Mode: "sometimes"}},
		"backups": {
			AuditLog: audit, ListenObjectsURLs: []string{"http://127.0.0.1:0"},
			Backups: sqlstore.Backups{Bucket: bucket, Keep: -1},
		},
	} {
		t.Run(step, func(t *testing.T) {
			before := runtime.NumGoroutine()
			s, err := sqlstore.Start(t.Context(), cfg)
			if err == nil {
				_ = s.Close()
				t.Fatal("it has started")
			}
			t.Log(err)
			eventually(t, "its goroutines end", func() error {
				if n := runtime.NumGoroutine(); n > before {
					return fmt.Errorf("%d goroutines, %d before", n, before)
				}
				return nil
			})
		})
	}
}
