package listen

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/testing/authority"
)

// settled is a server's certificates with a clock that the test moves.
type settled struct {
	*Certificates
	t     *testing.T
	now   time.Time
	files Files
}

func newSettled(t *testing.T, a *authority.Authority, modified time.Time) *settled {
	t.Helper()
	dir := t.TempDir()
	s := &settled{t: t, now: time.Now(), files: Files{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key")}}
	s.install(a, "first", modified)
	var err error
	if s.Certificates, err = NewCertificates(s.files, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	s.clock = func() time.Time { return s.now }
	return s
}

func (s *settled) install(a *authority.Authority, name string, modified time.Time) {
	s.t.Helper()
	cert, key := a.Issue(name)
	authority.Write(s.t, s.files.Cert, cert)
	authority.Write(s.t, s.files.Key, key)
	if err := errors.Join(os.Chtimes(s.files.Cert, modified, modified), os.Chtimes(s.files.Key, modified,
		modified)); err != nil {
		s.t.Fatal(err)
	}
}

// Files are read again until their contents cannot change unnoticed, whatever their modification times, but not at each
// handshake forever.
func TestFilesSettle(t *testing.T) {
	a := authority.New(t)
	for name, modified := range map[string]time.Time{
		"of now": time.Now(), "of the past": time.Now().Add(-time.Hour),
		"of the future": time.Now().Add(24 * time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			s := newSettled(t, a, modified)
			for _, round := range []string{"at the start", "after a change"} {
				first := s.current()
				if s.now = s.now.Add(settling / 2); s.current() == first {
					t.Errorf("%s: not read again within a tick", round)
				}
				s.now = s.now.Add(settling)
				last := s.current()
				if s.now = s.now.Add(settling); s.current() != last {
					t.Errorf("%s: read again though nothing has changed", round)
				}
				s.install(a, "second", modified.Add(time.Minute))
			}
			if name := s.current().leaf.Subject.CommonName; name != "second" {
				t.Errorf("serving %q", name)
			}
		})
	}
}

// A failed load is retried although the files look the same: a repair may not change their times.
func TestFailedLoadIsTriedAgain(t *testing.T) {
	a := authority.New(t)
	old := time.Now().Add(-time.Hour)
	s := newSettled(t, a, old)
	s.install(a, "second", old.Add(time.Minute))
	key, err := os.ReadFile(s.files.Key)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text []byte) {
		t.Helper()
		if err := errors.Join(os.WriteFile(s.files.Key, text, 0o600), os.Chtimes(s.files.Key, old, old)); err != nil {
			t.Fatal(err)
		}
	}
	write(make([]byte, len(key))) // garbage stands for a file that can be stat'ed but not read
	for range 3 {
		if s.now = s.now.Add(time.Hour); s.State().Err == nil {
			t.Fatal("garbage was read as a key")
		}
	}
	write(key)
	if stat(s.files) != s.seen {
		t.Fatal("the repair is visible, so that the test proves nothing")
	}
	if st := s.State(); st.Err != nil {
		t.Errorf("still %v", st.Err)
	}
	if name := s.current().leaf.Subject.CommonName; name != "second" {
		t.Errorf("serving %q", name)
	}
}
