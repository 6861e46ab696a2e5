package pgserver

import (
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sqlstore/sqlstore/internal/testing/authority"
)

// With an authority for clients, only who has a certificate gets in; the superuser still does as before.
func TestServeTLS(t *testing.T) {
	each(t, Options{}, func(t *testing.T, s *Server) {
		if err := execute(s.DSN(), "CREATE ROLE client LOGIN PASSWORD 'secret'"); err != nil {
			t.Fatal(err)
		}
		ours, dir := authority.New(t), t.TempDir()
		cert, key := ours.Issue("postgres", s.Host())
		if err := s.ServeTLS(cert, key, ours.PEM()); err != nil {
			t.Fatal(err)
		}
		connect(t, s.DSN())
		u, err := url.Parse(s.DSN())
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword("client", "secret")
		file := func(name string, content []byte) string {
			path := filepath.Join(dir, name)
			authority.Write(t, path, content)
			return path
		}
		q := url.Values{"sslmode": {"verify-full"}, "sslrootcert": {file("ca", ours.PEM())}}
		u.RawQuery = q.Encode()
		if _, err := pgx.Connect(t.Context(), u.String()); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("without a certificate: %v", err)
		}
		cert, key = ours.Issue("client")
		q["sslcert"], q["sslkey"] = []string{file("crt", cert)}, []string{file("key", key)}
		u.RawQuery = q.Encode()
		connect(t, u.String())
	})
}
