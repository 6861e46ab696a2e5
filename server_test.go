package sqlstore_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/compactor"
	"github.com/sqlstore/sqlstore/test/support/launch"
)

func start(t *testing.T, cfg sqlstore.Config) (*sqlstore.Server, *clientv3.Client) {
	t.Helper()
	s, err := sqlstore.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	c, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints(), DialTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return s, c
}

func TestDataOutlivesServer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s, c := start(t, sqlstore.Config{DataDir: dir})
	lease, err := c.Grant(t.Context(), 60)
	if err != nil {
		t.Fatal(err)
	}
	put, err := c.Put(t.Context(), "k", "v", clientv3.WithLease(lease.ID))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sqlstore.Start(t.Context(), sqlstore.Config{DataDir: dir}); !errors.Is(err, backend.ErrInUse) {
		t.Fatalf("second server on the same directory: %v, want %v", err, backend.ErrInUse)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, c = start(t, sqlstore.Config{DataDir: dir})
	got, err := c.Get(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "v" || got.Kvs[0].ModRevision != put.Header.Revision ||
		got.Kvs[0].Lease != int64(lease.ID) {
		t.Fatalf("after a restart: %v", got.Kvs)
	}
	ttl, err := c.TimeToLive(t.Context(), lease.ID, clientv3.WithAttachedKeys())
	if err != nil || ttl.GrantedTTL != 60 || len(ttl.Keys) != 1 {
		t.Fatalf("lease after a restart: %v, %v", ttl, err)
	}
}

func TestUnixSocket(t *testing.T) {
	_, c := start(t, sqlstore.Config{ListenClientURLs: []string{"unix://" + filepath.Join(t.TempDir(), "s.sock")}})
	if _, err := c.Put(t.Context(), "k", "v"); err != nil {
		t.Fatal(err)
	}
}

// Errors name fields of the configuration, not flags of the command.
func TestErrorsNameFields(t *testing.T) {
	for _, c := range []struct {
		cfg  sqlstore.Config
		want string
	}{
		{sqlstore.Config{ListenClientURLs: []string{"https://127.0.0.1:0"}}, "Config.TLS.Cert and Config.TLS.Key"},
		{sqlstore.Config{ListenClientURLs: []string{"http://0.0.0.0:0"}}, "Config.InsecurePlaintext"},
		{
			sqlstore.Config{TLS: sqlstore.TLSFiles{Cert: "c", Key: "k", RequireClientCert: true}},
			"Config.TLS.RequireClientCert needs Config.TLS.TrustedCA",
		},
	} {
		s, err := sqlstore.Start(t.Context(), c.cfg)
		if err == nil {
			err = errors.Join(errors.New("started"), s.Close())
		}
		if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "--") {
			t.Errorf("error %v, want %q in it", err, c.want)
		}
	}
}

func TestRefusedConfigurations(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg  sqlstore.Config
		want error
	}{
		"plaintext beyond loopback": {
			sqlstore.Config{ListenClientURLs: []string{"http://0.0.0.0:0"}},
			sqlstore.ErrPlaintext,
		},
		"https without certificate": {
			sqlstore.Config{ListenClientURLs: []string{"https://127.0.0.1:0"}},
			sqlstore.ErrConfig,
		},
		"unknown datastore":   {sqlstore.Config{Datastore: "oracle://x"}, sqlstore.ErrConfig},
		"relative datastore":  {sqlstore.Config{Datastore: "sqlite://rel/path.db"}, sqlstore.ErrConfig},
		"advertised nonsense": {sqlstore.Config{AdvertiseClientURLs: []string{"junk"}}, sqlstore.ErrConfig},
		"bad origin":          {sqlstore.Config{CORS: []string{"https://host/path"}}, sqlstore.ErrConfig},
		"bad URL": {
			sqlstore.Config{ListenClientURLs: []string{"127.0.0.1:2379"}},
			sqlstore.ErrConfig,
		},
		"bad retention": {sqlstore.Config{Compaction: compactor.Config{
			Mode:      compactor.Revision,
			Retention: "1h",
		}}, compactor.ErrConfig},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := sqlstore.Start(t.Context(), tc.cfg)
			if err == nil {
				_ = s.Close()
			}
			if !errors.Is(err, tc.want) {
				t.Fatalf("%v, want %v", err, tc.want)
			}
		})
	}
}

func TestCloseEndsWatches(t *testing.T) {
	s, c := start(t, sqlstore.Config{})
	watch := c.Watch(clientv3.WithRequireLeader(t.Context()), "k", clientv3.WithCreatedNotify())
	if r := <-watch; !r.Created {
		t.Fatalf("%+v", r)
	}
	done := make(chan error, 1)
	go func() { done <- s.Close() }()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(8 * time.Second):
		t.Fatal("Close waits for a watch that nobody ends")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := c.Get(ctx, "k"); err == nil {
		t.Fatal("a closed server answers")
	}
}

// Metrics without TLS on loopback follow docs/kubernetes.md; clients without TLS are most likely a mistake.
func TestUnusedTLSFilesAreLogged(t *testing.T) {
	for name, tc := range map[string]struct {
		clients []string
		warns   bool
	}{
		"metrics without TLS":   {[]string{"https://127.0.0.1:0"}, false},
		"a socket besides":      {[]string{"https://127.0.0.1:0", "unix://" + filepath.Join(t.TempDir(), "s")}, false},
		"all clients plaintext": {[]string{"http://127.0.0.1:0"}, true},
	} {
		address, err := launch.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		var log logged
		s, err := sqlstore.Start(t.Context(), sqlstore.Config{
			TLS: certificates(t), ListenClientURLs: tc.clients, ListenMetricsURLs: []string{"http://" + address},
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		metrics := wantCode(t, http.DefaultClient, "GET", "http://"+address+"/metrics", "", http.StatusOK)
		text, err := io.ReadAll(metrics.Body)
		if err != nil || !strings.Contains(string(text), "\nsqlstore_certificate_expiry_timestamp_seconds{file=\"") {
			t.Errorf("%s: %v, the certificate's end is no metric", name, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if warns := strings.Contains(log.String(), "level=WARN"); warns != tc.warns {
			t.Errorf("%s: warns %v:\n%s", name, warns, log.String())
		}
	}
}
