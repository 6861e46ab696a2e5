package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// etcd's defaults let every web page in, of any origin and any host name. Only who asks for that gets it.
func TestEtcdOrigins(t *testing.T) {
	for _, c := range []struct{ args, origins, hosts []string }{
		{nil, nil, nil},
		{[]string{"--cors", "*"}, []string{"*"}, nil},
		{[]string{"--cors", "https://a.example:443"}, []string{"https://a.example:443"}, nil},
		{[]string{"--host-whitelist", "*"}, nil, []string{"*"}},
		{[]string{"--host-whitelist", "b.example,a.example"}, nil, []string{"a.example", "b.example"}},
		{[]string{"--host-whitelist", ""}, nil, nil},
	} {
		s, _, err := (&etcdMode{args: c.args}).read()
		if err != nil || !slices.Equal(s.config.CORS, c.origins) || !slices.Equal(s.config.HostWhitelist, c.hosts) {
			t.Errorf("etcd %q: origins %q, hosts %q, %v; want %q and %q", c.args, s.config.CORS,
				s.config.HostWhitelist, err, c.origins, c.hosts)
		}
	}
}

// As in etcd, where traces go, and how many, is checked only if there are any.
func TestEtcdTracing(t *testing.T) {
	for _, flag := range []string{"--distributed-tracing-address=x", "--distributed-tracing-sampling-rate=-1"} {
		if s, _, err := (&etcdMode{args: []string{flag}}).read(); err != nil || s.traces {
			t.Errorf("%s: %v", flag, err)
		}
		if _, _, err := (&etcdMode{args: []string{flag, "--enable-distributed-tracing"}}).read(); err == nil {
			t.Errorf("%s is accepted", flag)
		}
	}
}

// readEtcd reads a configuration file of etcd's.
func readEtcd(t *testing.T, file string, args ...string) (*etcdMode, *settings, *reloader) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "etcd.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	e := &etcdMode{args: append([]string{"--config-file", path}, args...)}
	s, flags, err := e.read()
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return e, s, &reloader{flags: flags}
}

// The common names that etcd's file allows are the only ones. Without TLS they mean nothing, as in etcd.
func TestEtcdAllowedNames(t *testing.T) {
	const section = "client-transport-security: {cert-file: c, key-file: k, trusted-ca-file: a, " +
		"allowed-cn: [alice, bob]}\n"
	_, s, _ := readEtcd(t, section+"listen-client-urls: https://127.0.0.1:1\n"+
		"advertise-client-urls: https://127.0.0.1:1\n")
	if got := s.config.TLS.AllowedNames; !slices.Equal(got, []string{"alice", "bob"}) {
		t.Errorf("allowed names %q", got)
	}
	_, s, _ = readEtcd(t, "client-transport-security: {cert-file: c, key-file: k, trusted-ca-file: a, "+
		"allowed-cn: [\"Acme, Inc.\", 'a\"b']}\nlisten-client-urls: https://127.0.0.1:1\n"+
		"advertise-client-urls: https://127.0.0.1:1\n", "--client-cert-allowed-cn=carol")
	if got := s.config.TLS.AllowedNames; !slices.Equal(got, []string{"carol"}) {
		t.Errorf("allowed names %q, although the command line allows one", got)
	}
	_, s, _ = readEtcd(t, "client-transport-security: {cert-file: c, key-file: k, trusted-ca-file: a, "+
		"allowed-cn: [\"Acme, Inc.\", 'a\"b']}\nlisten-client-urls: https://127.0.0.1:1\n"+
		"advertise-client-urls: https://127.0.0.1:1\n")
	if got := s.config.TLS.AllowedNames; !slices.Equal(got, []string{"Acme, Inc.", `a"b`}) {
		t.Errorf("allowed names %q", got)
	}
	e, s, _ := readEtcd(t, section)
	if got := s.config.TLS.AllowedNames; len(got) > 0 {
		t.Errorf("allowed names without TLS: %q", got)
	}
	if !slices.Contains(e.unused, unusedSetting{allowedNames, noTLS}) {
		t.Errorf("without effect: %q", e.unused)
	}
}

// etcd serves profiles at the level debug. That must not make a reload of the level a change of another setting.
func TestEtcdReloadsTheLogLevel(t *testing.T) {
	_, _, running := readEtcd(t, "log-level: info\n")
	_, _, next := readEtcd(t, "log-level: debug\n")
	for _, from := range []struct{ running, next *reloader }{{running, next}, {next, running}} {
		changed, refused := from.running.changes(from.next.flags)
		if !slices.Equal(changed, []string{"log-level"}) || len(refused) > 0 {
			t.Errorf("changed %q, refused %q", changed, refused)
		}
	}
}
