package credentials

import (
	"crypto/x509"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
)

const serviceIP = "10.43.0.1"

// A second start changes nothing. Only this user can read the files, and there are no others.
func TestEnsure(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	f := ensure(t, dir, "127.0.0.1:6443", now)
	first := contents(t, dir)
	if len(first) != 7 {
		t.Errorf("%d files, want 7", len(first))
	}
	for path := range first {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	ensure(t, dir, "127.0.0.1:6443", now.Add(certificateLife-renewal-time.Hour))
	expectChanged(t, dir, first)
	for _, path := range []string{f.Admin, f.ControllerManager, f.Scheduler} {
		if _, err := clientcmd.BuildConfigFromFlags("", path); err != nil {
			t.Error(err)
		}
	}
}

// Certificates are replaced before they end, by the same authority.
func TestRenewal(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	f := ensure(t, dir, "127.0.0.1:6443", now)
	first := contents(t, dir)
	ensure(t, dir, "127.0.0.1:6443", now.Add(certificateLife-renewal+time.Hour))
	expectChanged(t, dir, first, f.ServerPair, f.Admin, f.ControllerManager, f.Scheduler)
}

// A new certificate of the authority has the key of the old one, and so verifies what that has signed.
func TestRenewalOfTheAuthority(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	f := ensure(t, dir, "127.0.0.1:6443", now)
	late := now.Add(authorityLife - certificateLife - renewal - time.Hour)
	ensure(t, dir, "127.0.0.1:6443", late)
	before := contents(t, dir)
	ensure(t, dir, "127.0.0.1:6443", late.Add(2*time.Hour))
	expectChanged(t, dir, before, f.AuthorityPair, f.Authority, f.Admin, f.ControllerManager, f.Scheduler)
	verify(t, f, "127.0.0.1", late)
}

// A server that listens elsewhere has a certificate for that, and kubeconfigs that lead there.
func TestOtherHost(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	ensure(t, dir, "127.0.0.1:6443", now)
	f := ensure(t, dir, "192.0.2.7:6443", now)
	verify(t, f, "192.0.2.7", now)
	verify(t, f, "kubernetes.default.svc", now)
	for listen, want := range map[string]string{
		"192.0.2.7:6443": "192.0.2.7:6443", ":1": "127.0.0.1:1", "[::]:2": "127.0.0.1:2",
	} {
		f := ensure(t, dir, listen, now)
		cfg, err := clientcmd.BuildConfigFromFlags("", f.Admin)
		if err != nil {
			t.Fatal(err)
		}
		if u, err := url.Parse(cfg.Host); err != nil || u.Host != want {
			t.Errorf("listening on %s, clients connect to %s (%v), want %s", listen, cfg.Host, err, want)
		}
	}
}

// A damaged authority is an error that names the file: with a new one, no client would know the server.
func TestDamagedAuthority(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	f := ensure(t, dir, "127.0.0.1:6443", now)
	if err := os.WriteFile(f.AuthorityPair, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Ensure(dir, "127.0.0.1:6443", serviceIP, now); err == nil {
		t.Error("it made another authority")
	}
}

func ensure(t *testing.T, dir, listen string, now time.Time) *Files {
	t.Helper()
	f, err := Ensure(dir, listen, serviceIP, now)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// contents returns the contents of all files by path.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[path] = string(content)
	}
	return all
}

// expectChanged checks that these files have other contents than before, and only they.
func expectChanged(t *testing.T, dir string, before map[string]string, want ...string) {
	t.Helper()
	changed := map[string]bool{}
	for path, content := range contents(t, dir) {
		if before[path] != content {
			changed[path] = true
		}
	}
	for _, path := range want {
		if !changed[path] {
			t.Errorf("%s is the same", path)
		}
		delete(changed, path)
	}
	for path := range changed {
		t.Errorf("%s changed", path)
	}
}

// verify checks that a client which trusts the authority trusts the server under a name.
func verify(t *testing.T, f *Files, host string, now time.Time) {
	t.Helper()
	roots, err := cert.NewPool(f.Authority)
	if err != nil {
		t.Fatal(err)
	}
	certs, err := cert.CertsFromFile(f.ServerPair)
	if err != nil {
		t.Fatal(err)
	}
	options := x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: now.Add(2 * time.Hour)}
	if _, err := certs[0].Verify(options); err != nil {
		t.Error(err)
	}
}
