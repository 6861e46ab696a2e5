package sqlstore_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/compactor"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
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

// Values that make no sense are refused, and the error says which are allowed.
func TestSenselessValues(t *testing.T) {
	for _, c := range []struct {
		cfg   sqlstore.Config
		parts string // of the error, separated by |
	}{
		{sqlstore.Config{WatchProgressInterval: 1}, "Config.WatchProgressInterval is 1ns|at least 10ms"},
		{sqlstore.Config{WatchProgressInterval: -time.Second}, "Config.WatchProgressInterval is -1s|at least 10ms"},
		{sqlstore.Config{DatastoreMaxStaleness: 1}, "Config.DatastoreMaxStaleness is 1ns|at least 10ms"},
		{sqlstore.Config{KeepaliveMinTime: -1}, "Config.KeepaliveMinTime is -1ns|at least 0s"},
		{sqlstore.Config{KeepaliveInterval: 1}, "Config.KeepaliveInterval|at least 10ms"},
		{sqlstore.Config{KeepaliveTimeout: 1}, "Config.KeepaliveTimeout|at least 10ms"},
		{sqlstore.Config{AuthTokenTTL: -1}, "Config.AuthTokenTTL|at least 0s"},
		{sqlstore.Config{CacheBytes: -1}, "Config.CacheBytes is -1|at least 0"},
		{sqlstore.Config{MaxRequestBytes: -1}, "Config.MaxRequestBytes|at least 0"},
		{sqlstore.Config{MaxTxnOps: -1}, "Config.MaxTxnOps|at least 0"},
		{sqlstore.Config{AutoTLSYears: -1}, "Config.AutoTLSYears|at least 0"},
		{sqlstore.Config{AutoTLSYears: 1001}, "Config.AutoTLSYears is 1001|at most 1000"},
		{sqlstore.Config{DatastoreMaxConns: 3}, "Config.DatastoreMaxConns is 3|at least 4"},
		{sqlstore.Config{DatastoreMaxConns: 8}, "Config.DatastoreMaxConns is for Postgres|does not name a Postgres"},
		{
			sqlstore.Config{TLS: sqlstore.TLSFiles{
				MinVersion: tls.VersionTLS13, CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256},
			}},
			"Config.TLS.CipherSuites are for TLS 1.2|Config.TLS.MinVersion",
		},
		{
			sqlstore.Config{CorruptChecks: sqlstore.CorruptChecks{Period: 1}},
			"Config.CorruptChecks.Period|at least 10ms",
		},
		{
			sqlstore.Config{CorruptChecks: sqlstore.CorruptChecks{CompactionPeriod: -1}},
			"Config.CorruptChecks.CompactionPeriod|at least 10ms",
		},
		{sqlstore.Config{Backups: sqlstore.Backups{Interval: 1}}, "Config.Backups.Interval|at least 10ms"},
		{sqlstore.Config{Backups: sqlstore.Backups{Keep: -1}}, "Config.Backups.Keep|at least 1m0s"},
		{sqlstore.Config{Backups: sqlstore.Backups{Keep: 1}}, "Config.Backups.Keep is 1ns|at least 1m0s"},
		{
			sqlstore.Config{Backups: sqlstore.Backups{FullInterval: time.Second}},
			"Config.Backups.FullInterval is 1s|at least 5s, which is Config.Backups.Interval",
		},
		{
			sqlstore.Config{AcknowledgedConditions: []string{"BackupStale", "Corrupt"}},
			"Config.AcknowledgedConditions|Corrupt cannot be acknowledged",
		},
		{sqlstore.Config{AcknowledgedConditions: []string{"Tired"}}, "\"Tired\" is not a condition|BackupStale"},
		{
			sqlstore.Config{HostWhitelist: []string{"a", "*.example.com"}},
			"Config.HostWhitelist|\"*.example.com\"|pattern",
		},
		{sqlstore.Config{CORS: []string{"https://*.example.com"}}, "Config.CORS|\"https://*.example.com\"|patterns"},
	} {
		s, err := sqlstore.Start(t.Context(), c.cfg)
		if err == nil {
			_ = s.Close()
		}
		for part := range strings.SplitSeq(c.parts, "|") {
			if !errors.Is(err, sqlstore.ErrConfig) || !strings.Contains(err.Error(), part) {
				t.Errorf("error %v, want %q in it", err, part)
			}
		}
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

// Metrics without TLS on loopback follow docs/kubernetes.md; clients without TLS are most likely a mistake, and so are
// those that need no certificate beside others that do.
func TestUnusedTLSFilesAreLogged(t *testing.T) {
	secure, plain := []string{"https://127.0.0.1:0"}, []string{"http://127.0.0.1:0"}
	socket := []string{"unix://" + filepath.Join(t.TempDir(), "s")}
	for name, tc := range map[string]struct {
		clients, http, objects []string
		authority, warns       bool
	}{
		"metrics without TLS":          {clients: secure, authority: true},
		"a socket besides":             {clients: slices.Concat(secure, socket), authority: true},
		"all clients plaintext":        {clients: plain, warns: true},
		"plaintext besides":            {clients: slices.Concat(secure, plain)},
		"no certificate besides":       {clients: slices.Concat(secure, plain), authority: true, warns: true},
		"HTTP without certificates":    {clients: secure, http: plain, authority: true, warns: true},
		"a plaintext API":              {clients: secure, objects: plain},
		"the API without certificates": {clients: secure, objects: plain, authority: true, warns: true},
		"the API on a socket":          {clients: secure, objects: socket, authority: true},
		"the API with certificates":    {clients: secure, objects: secure, authority: true},
	} {
		files := certificates(t)
		if tc.authority {
			files.TrustedCA = files.Cert
		}
		address, err := launch.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		var log logged
		s, err := sqlstore.Start(t.Context(), sqlstore.Config{
			TLS: files, ListenClientURLs: tc.clients, ListenClientHTTPURLs: tc.http, ListenObjectsURLs: tc.objects,
			ListenMetricsURLs: []string{"http://" + address},
			Logger:            slog.New(slog.NewTextHandler(&log, nil)),
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
