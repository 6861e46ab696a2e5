package listen_test

import (
	"os"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/listen"
	"github.com/sqlstore/sqlstore/internal/testing/authority"
)

func TestExpiring(t *testing.T) {
	const day = 24 * time.Hour
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		whole, left time.Duration
		want        bool
	}{
		{365 * day, 31 * day, false},
		{365 * day, 29 * day, true},
		{90 * day, 30 * day, false},
		{90 * day, 30*day - time.Second, true},
		{9 * day, 3 * day, false},
		{9 * day, 3*day - time.Second, true},
		{time.Hour, 21 * time.Minute, false},
		{time.Hour, -time.Minute, true},
		{365 * day, 400 * day, false}, // not yet valid
	} {
		v := listen.Validity{NotBefore: now.Add(c.left - c.whole), NotAfter: now.Add(c.left)}
		if got := v.Expiring(now); got != c.want {
			t.Errorf("%s of %s left: expiring %v", c.left, c.whole, got)
		}
	}
}

func TestCertificateState(t *testing.T) {
	a := authority.New(t)
	s := newTLSServer(t, a, nil)
	st := s.certs.State()
	if st.Err != nil || len(st.Served) != 1 || st.Served[0].File != s.files.Cert ||
		!st.Served[0].NotAfter.After(st.Served[0].NotBefore) {
		t.Errorf("%+v", st)
	}
	served := st.Served[0]
	if err := os.Remove(s.files.Key); err != nil {
		t.Fatal(err)
	}
	if st := s.certs.State(); st.Err == nil || len(st.Served) != 1 || st.Served[0] != served {
		t.Errorf("without its key: %+v", st)
	}
	s.install(a.Issue("second"))
	if st := s.certs.State(); st.Err != nil {
		t.Errorf("with another pair: %+v", st)
	}
}
