package sqlstore_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/backend/postgres"
	"github.com/sqlstore/sqlstore/compactor"
	"github.com/sqlstore/sqlstore/internal/testing/authority"
)

// What Check refuses, Start refuses for the same reason, and Check leaves nothing behind.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "etcd", "member"), 0o700); err != nil {
		t.Fatal(err)
	}
	cert, key := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	for name, c := range map[string]struct {
		cfg  sqlstore.Config
		want error
	}{
		"limit":      {sqlstore.Config{MaxTxnOps: -1}, sqlstore.ErrConfig},
		"blank name": {sqlstore.Config{Name: " "}, sqlstore.ErrConfig},
		"blank data directory": {
			sqlstore.Config{DataDir: " ", Datastore: "postgres://127.0.0.1:1/d"}, sqlstore.ErrConfig,
		},
		"blank audit log": {sqlstore.Config{AuditLog: "\t"}, sqlstore.ErrConfig},
		"listen":          {sqlstore.Config{ListenClientURLs: []string{"127.0.0.1:0"}}, sqlstore.ErrConfig},
		"plaintext":       {sqlstore.Config{ListenMetricsURLs: []string{"http://0.0.0.0:0"}}, sqlstore.ErrPlaintext},
		"no TLS":          {sqlstore.Config{ListenObjectsURLs: []string{"https://127.0.0.1:0"}}, sqlstore.ErrConfig},
		"half TLS":        {sqlstore.Config{TLS: sqlstore.TLSFiles{Cert: cert}}, sqlstore.ErrConfig},
		"no file":         {sqlstore.Config{TLS: sqlstore.TLSFiles{Cert: cert, Key: key}}, fs.ErrNotExist},
		"tokens":          {sqlstore.Config{AuthToken: "none"}, sqlstore.ErrConfig},
		"audit":           {sqlstore.Config{AuditLogLevel: "none"}, sqlstore.ErrConfig},
		"compaction": {
			sqlstore.Config{Compaction: compactor.Config{Mode: compactor.Periodic, Retention: "x"}},
			compactor.ErrConfig,
		},
		"datastore": {sqlstore.Config{Datastore: "mysql://h/d"}, sqlstore.ErrConfig},
		"DSN":       {sqlstore.Config{Datastore: "postgres://u:x@y@h/d"}, postgres.ErrDSN},
		"session": {
			sqlstore.Config{Datastore: "postgres://h/d?target_session_attrs=standby"}, postgres.ErrParameter,
		},
		"connections": {sqlstore.Config{Datastore: "postgres://h/d?pool_max_conns=3"}, postgres.ErrParameter},
		"password": {
			sqlstore.Config{Datastore: "postgres://h/d", DatastorePasswordFile: cert}, sqlstore.ErrConfig,
		},
		"password directory": {
			sqlstore.Config{Datastore: "postgres://h/d", DatastorePasswordFile: dir}, sqlstore.ErrConfig,
		},
		"audit directory":  {sqlstore.Config{AuditLog: filepath.Join(dir, "none", "audit")}, sqlstore.ErrConfig},
		"no place for TLS": {sqlstore.Config{AutoTLS: true}, sqlstore.ErrConfig},
		"half of a pair":   {sqlstore.Config{AutoTLS: true, TLS: sqlstore.TLSFiles{Key: key}}, sqlstore.ErrConfig},
		"no authority": {
			sqlstore.Config{AutoTLS: true, DataDir: dir, TLS: sqlstore.TLSFiles{CRL: cert}}, sqlstore.ErrConfig,
		},
		"missing authority": {
			sqlstore.Config{AutoTLS: true, DataDir: dir, TLS: sqlstore.TLSFiles{TrustedCA: cert}}, fs.ErrNotExist,
		},
		"an empty name": {sqlstore.Config{AutoTLS: true, DataDir: dir, TLS: sqlstore.TLSFiles{
			TrustedCA: cert, AllowedNames: []string{""},
		}}, sqlstore.ErrConfig},
		"an empty host": {sqlstore.Config{AutoTLS: true, DataDir: dir, TLS: sqlstore.TLSFiles{
			TrustedCA: cert, AllowedHosts: []string{"a.example", ""},
		}}, sqlstore.ErrConfig},
		"a blank host": {sqlstore.Config{AutoTLS: true, DataDir: dir, TLS: sqlstore.TLSFiles{
			TrustedCA: cert, AllowedHosts: []string{" "},
		}}, sqlstore.ErrConfig},
		"etcd": {sqlstore.Config{DataDir: filepath.Join(dir, "etcd")}, sqlstore.ErrEtcdData},
	} {
		if err := c.cfg.Check(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		s, err := sqlstore.Start(t.Context(), c.cfg)
		if err == nil {
			_ = s.Close()
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%s: Start: %v, want %v", name, err, c.want)
		}
	}
	a := authority.New(t)
	pair, private := a.Issue("server")
	authority.Write(t, cert, pair)
	authority.Write(t, key, private)
	good := sqlstore.Config{
		DataDir: filepath.Join(dir, "data"), ListenClientURLs: []string{"https://127.0.0.1:0"},
		TLS: sqlstore.TLSFiles{Cert: cert, Key: key}, AuditLog: filepath.Join(dir, "audit"),
	}
	for name, cfg := range map[string]sqlstore.Config{
		"zero": {}, "all": good, "generated certificate": {
			DataDir: good.DataDir, ListenClientURLs: good.ListenClientURLs, AutoTLS: true,
		},
		"Postgres": {Datastore: "postgres://u:p@127.0.0.1:1/d"},
	} {
		if err := cfg.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, path := range []string{good.DataDir, good.AuditLog} {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want none", path, err)
		}
	}
}
