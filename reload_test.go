package sqlstore_test

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/compactor"
)

func TestReload(t *testing.T) {
	s, _ := start(t, sqlstore.Config{QuotaBytes: 1 << 30})
	quota := func() int64 {
		t.Helper()
		st, err := s.Store().Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return st.Quota
	}
	revisions := compactor.Config{Mode: compactor.Revision, Retention: "100"}
	if err := s.Reload(sqlstore.Reload{QuotaBytes: 3 << 30, Compaction: revisions}); err != nil {
		t.Fatal(err)
	}
	if got := quota(); got != 3<<30 {
		t.Errorf("quota %d, want 3 GiB", got)
	}
	// If one setting is wrong, nothing changes.
	for name, c := range map[string]struct {
		reload sqlstore.Reload
		want   error
	}{
		"retention": {
			sqlstore.Reload{Compaction: compactor.Config{Mode: compactor.Revision, Retention: "x"}},
			compactor.ErrConfig,
		},
		"TLS from now on": {sqlstore.Reload{TLS: sqlstore.TLSFiles{Cert: "c", Key: "k"}}, sqlstore.ErrConfig},
		"half of TLS":     {sqlstore.Reload{TLS: sqlstore.TLSFiles{TrustedCA: "c"}}, sqlstore.ErrConfig},
	} {
		c.reload.QuotaBytes = 5 << 30
		if err := s.Reload(c.reload); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if got := quota(); got != 3<<30 {
			t.Errorf("%s: quota %d, want 3 GiB", name, got)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(sqlstore.Reload{}); err != nil {
		t.Errorf("after Close: %v", err)
	}
}

// A reload with missing TLS files does not change the quota, and one with an invalid retention does not change the TLS
// files.
func TestReloadWithTLS(t *testing.T) {
	files, other := certificates(t), certificates(t)
	s, err := sqlstore.Start(t.Context(), sqlstore.Config{QuotaBytes: 1 << 30, TLS: files, ListenClientURLs: []string{
		"https://127.0.0.1:0",
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	err = s.Reload(sqlstore.Reload{QuotaBytes: 5 << 30, TLS: sqlstore.TLSFiles{Cert: files.Cert, Key: "not there"}})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the key: %v", err)
	}
	if st, err := s.Store().Status(t.Context()); err != nil || st.Quota != 1<<30 {
		t.Errorf("quota %d, %v", st.Quota, err)
	}
	err = s.Reload(sqlstore.Reload{TLS: other, Compaction: compactor.Config{Mode: compactor.Revision, Retention: "x"}})
	if !errors.Is(err, compactor.ErrConfig) {
		t.Errorf("with a bad retention: %v", err)
	}
	if err := os.Remove(other.Cert); err != nil {
		t.Fatal(err)
	}
	wantConditions(t, s, "ResolvedRefs True ResolvedRefs", "Ready True Ready")
}
