package packages

import (
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/pages"
)

const (
	config = "/etc/sqlstore/sqlstore.yaml"
	data   = "/var/lib/sqlstore/sqlstore.db"
)

// deb returns the path of this machine's package.
func deb(t *testing.T, version string) string {
	t.Helper()
	return filepath.Join(built(t, version), "sqlstore_"+version+"_"+runtime.GOARCH+".deb")
}

// A package is installed, started, upgraded while it serves, removed, installed again and purged. The data stays until
// the end, and so does a changed configuration, without a question.
func TestDebian(t *testing.T) {
	first, second := deb(t, version), deb(t, newer)
	m := boot(t)
	install := func(path string) string { return m.run(t, "dpkg", "--install", m.put(t, path)) }
	state := func(want string) {
		t.Helper()
		enabled, _ := m.try("systemctl", "is-enabled", "sqlstore")
		active, _ := m.try("systemctl", "is-active", "sqlstore")
		if got := strings.Join(strings.Fields(enabled+active), " "); got != want {
			t.Fatalf("the service is %q, want %q", got, want)
		}
	}
	get := func(want string) {
		t.Helper()
		if got := m.run(t, "etcdctl", "get", "--print-value-only", "k"); got != want {
			t.Fatalf("k is %q, want %q", got, want)
		}
	}
	pid := func() string { return m.run(t, "systemctl", "show", "--property=MainPID", "--value", "sqlstore") }

	install(first)
	state("disabled inactive")
	m.run(t, "systemd-analyze", "--man=no", "verify", "/usr/lib/systemd/system/sqlstore.service")
	m.run(t, "setpriv", "--reuid=sqlstore", "--regid=sqlstore", "--init-groups", "sqlstore", "config", "check",
		"--config-file", config)

	m.run(t, "systemctl", "enable", "--now", "sqlstore")
	state("enabled active")
	if owner := m.run(t, "stat", "--format=%U %a", data, filepath.Dir(data)); owner != "sqlstore 600\nsqlstore 700" {
		t.Errorf("the data and its directory are of %s", owner)
	}
	m.run(t, "etcdctl", "put", "k", "v")

	set := func(line string) { m.run(t, "sed", "--in-place", "$a"+line, config) }
	unset := func(key string) { m.run(t, "sed", "--in-place", "/^"+key+":/d", config) }
	logged := func(what string) {
		t.Helper()
		m.run(t, "timeout", "60", "bash", "-c",
			`grep --max-count=1 "$1" <(journalctl --unit=sqlstore --follow --lines=all)`, "logged", what)
	}
	set("log-level: debug")
	m.run(t, "systemctl", "reload", "sqlstore")
	logged(`"changed":."log-level"`)

	// Settings that the new version refuses: the old one serves on.
	old := pid()
	set("gone: 1")
	if said := install(second); !strings.Contains(said, "the old version still runs") || pid() != old {
		t.Fatalf("the upgrade with wrong settings says\n%s", said)
	}
	state("enabled active")
	get("v")
	unset("gone")

	// started waits for the restart that an upgrade leaves behind.
	started := func() {
		t.Helper()
		m.run(t, "timeout", "60", "systemctl", "start", "sqlstore")
		state("enabled active")
	}
	install(second)
	started()
	get("v")
	if now := pid(); now == old || m.run(t, "readlink", "/proc/"+now+"/exe") != "/usr/bin/sqlstore" {
		t.Error("the old program still serves")
	}
	said := m.run(t, "sqlstore", "version")
	if !strings.Contains(said, newer) || !strings.Contains(said, "-modified\n") {
		t.Errorf("the new version is %s", said)
	}
	m.run(t, "grep", "^log-level: debug", config)

	// A server that waits for its database starts again with other settings.
	set("datastore: postgres://user@127.0.0.1:1/none?sslmode=disable")
	m.run(t, "systemctl", "stop", "sqlstore")
	m.run(t, "systemctl", "start", "--no-block", "sqlstore")
	logged("database is not available yet")
	state("enabled activating")
	unset("datastore")
	install(second)
	started()
	get("v")

	m.run(t, "dpkg", "--remove", "sqlstore")
	if active, err := m.try("systemctl", "is-active", "sqlstore"); err == nil {
		t.Errorf("the service is %s after the removal", active)
	}
	m.run(t, "test", "-s", data)
	install(second)
	state("disabled inactive")
	m.run(t, "systemctl", "start", "sqlstore")
	get("v")

	purge := func() { m.run(t, "dpkg", "--purge", "sqlstore") }
	purge()
	for _, path := range []string{filepath.Dir(data), filepath.Dir(config), "/usr/bin/sqlstore"} {
		if _, err := m.try("test", "!", "-e", path); err != nil {
			t.Errorf("%s is left", path)
		}
	}

	// A mount point stays, and what is in it goes.
	install(second)
	m.run(t, "mount", "-t", "tmpfs", "tmpfs", filepath.Dir(data))
	m.run(t, "systemctl", "start", "sqlstore")
	m.run(t, "test", "-s", data)
	purge()
	if left := m.run(t, "find", filepath.Dir(data)); left != filepath.Dir(data) {
		t.Errorf("the purge leaves\n%s", left)
	}
}

// The unit has at most the exposure 2.0 of 10.
func TestHardening(t *testing.T) {
	unit := filepath.Join(pages.Root(t), "packaging", "sqlstore.service")
	t.Log(run(t, "systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=20", unit))
}
