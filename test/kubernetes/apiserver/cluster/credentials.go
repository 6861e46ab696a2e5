package cluster

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
)

// credentials are the files that a kube-apiserver needs before it starts.
type credentials struct {
	dir       string // for the certificate that kube-apiserver signs for itself
	tokenFile string // one user with all permissions
	keyFile   string // signs service account tokens
	token     string
}

func newCredentials(tb testing.TB) credentials {
	tb.Helper()
	dir := tb.TempDir()
	c := credentials{
		dir:       dir,
		tokenFile: filepath.Join(dir, "tokens.csv"),
		keyFile:   filepath.Join(dir, "service-account.pem"),
		token:     rand.Text(),
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		tb.Fatal(err)
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	writeFile(tb, c.keyFile, pem.EncodeToMemory(block))
	writeFile(tb, c.tokenFile, []byte(c.token+",admin,admin,system:masters\n"))
	return c
}

// certificate returns the file that clients use to verify kube-apiserver's certificate.
func (c credentials) certificate() string { return filepath.Join(c.dir, "apiserver.crt") }

func writeFile(tb testing.TB, path string, content []byte) {
	tb.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		tb.Fatal(err)
	}
}
