package moves

import (
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/kine"
	"github.com/sqlstore/sqlstore/test/moves/server"
)

// An import needs no more than the right to read the table, and connects with TLS, certificate and password.
func TestMariaDBUser(t *testing.T) {
	maria := server.StartMariaDB(t)
	_, place, _ := strings.Cut(maria.Database(t), "@")
	address, name, _ := strings.Cut(place, "/")
	k := server.Versions[0].Start(t, "mysql://root@tcp("+address+")/"+name)
	k.Stop(t)
	const password = "p:@/?%"
	for _, s := range []string{
		"CREATE USER reader@'%' IDENTIFIED BY '" + password + "' REQUIRE X509",
		"GRANT SELECT ON " + name + ".kine TO reader@'%'",
	} {
		if err := maria.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
	files := url.Values{}
	for parameter, file := range map[string]string{
		"sslrootcert": "root.pem", "sslcert": "client.pem", "sslkey": "client.key",
	} {
		files.Set(parameter, filepath.Join(maria.Files, file))
	}
	u := &url.URL{Scheme: kine.Prefix + "mysql", User: url.UserPassword("reader", password), Host: address, Path: name}
	if _, err := kine.Open(t.Context(), u.String()); !errors.Is(err, backend.ErrSource) {
		t.Errorf("without a certificate: %v", err)
	}
	u.RawQuery = files.Encode()
	s, err := kine.Open(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	if c := s.Contents(); c.Revision < 2 {
		t.Errorf("the contents are %+v", c)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
