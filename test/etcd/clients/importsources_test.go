package clients

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/sqlstore/sqlstore/internal/testing/authority"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// An etcd that asks for client certificates is a source, with the flags that etcdctl has.
func TestImportOverTLS(t *testing.T) {
	ca, dir := authority.New(t), t.TempDir()
	at := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		authority.Write(t, path, content)
		return path
	}
	cert, key := ca.Issue("server")
	clientCert, clientKey := ca.Issue("client")
	address, err := launch.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	other, err := launch.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	servers.Etcd(t, "--unsafe-no-fsync", "--listen-client-urls", "http://"+other+",https://"+address,
		"--advertise-client-urls", "http://"+other, "--cert-file", at("server.crt", cert),
		"--key-file", at("server.key", key), "--trusted-ca-file", at("ca.crt", ca.PEM()), "--client-cert-auth")
	writeHistory(t, connectTo(t, other), 20)
	from := []string{"import", "--from", "https://" + address, "--work-dir", t.TempDir()}
	files := []string{
		"--cacert", at("ca.crt", ca.PEM()), "--cert", at("client.crt", clientCert),
		"--key", at("client.key", clientKey),
	}
	target := "--data-dir=" + filepath.Join(t.TempDir(), "target")
	if r := sqlstore(t, append(from, target, "--cacert", filepath.Join(dir, "ca.crt"))...); r.code == 0 ||
		!strings.Contains(r.stderr, "does not answer") {
		t.Errorf("an import without a client certificate: exit code %d, %q", r.code, r.stderr)
	}
	out := sqlstore(t, append(append(from, target), files...)...).must(t)
	if !strings.Contains(out, "revision 41, compacted 20") {
		t.Errorf("import: %q", out)
	}
}

// A file of a future version is refused, and so is a directory that etcd has not made.
func TestImportRefusesSources(t *testing.T) {
	etcd := servers.Etcd(t, "--unsafe-no-fsync")
	writeHistory(t, connect(t, etcd), 0)
	etcd.Kill()
	file := filepath.Join(etcd.DataDir(), "member", "snap", "db")
	db, err := bbolt.Open(file, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("meta")).Put([]byte("storageVersion"), []byte("3.8.0"))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for from, message := range map[string]string{
		file: "upgrade sqlstore", t.TempDir(): "is a directory", "ftp://host/file": "unknown kind",
	} {
		dir := filepath.Join(t.TempDir(), "target")
		if r := sqlstore(t, "import", "--from", from, "--data-dir", dir); r.code == 0 ||
			!strings.Contains(r.stderr, message) {
			t.Errorf("%s: exit code %d, %q; want %q", from, r.code, r.stderr, message)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s: the target exists: %v", from, err)
		}
	}
}
