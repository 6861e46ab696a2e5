package packages

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rpms are the names that RPM has for the architectures.
var rpms = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

func rpm(t *testing.T, version, arch string) string {
	t.Helper()
	return filepath.Join(built(t, version), "sqlstore-"+version+"-1."+rpms[arch]+".rpm")
}

// Both packages have the same files, of both architectures: among them the unit, the configuration, man pages and
// completions.
func TestSameFiles(t *testing.T) {
	dist := built(t, version)
	var all [][]string
	for arch := range rpms {
		path := filepath.Join(dist, "sqlstore_"+version+"_"+arch+".deb")
		var files []string
		for line := range strings.Lines(run(t, "dpkg-deb", "--contents", path)) {
			name := strings.TrimPrefix(strings.Fields(line)[5], ".")
			if !strings.HasSuffix(name, "/") {
				files = append(files, strings.Replace(name, "zsh/vendor-completions", "zsh/site-functions", 1))
			}
		}
		slices.Sort(files)
		listed := strings.Fields(run(t, "rpm", "--query", "--package", "--list", rpm(t, version, arch)))
		slices.Sort(listed)
		all = append(all, files, listed)
	}
	for _, files := range all[1:] {
		if !slices.Equal(files, all[0]) {
			t.Errorf("a package has\n%q, another\n%q", files, all[0])
		}
	}
	for _, name := range []string{
		"/usr/bin/sqlstore", config, "/usr/lib/systemd/system/sqlstore.service", "/usr/lib/sysusers.d/sqlstore.conf",
		"/usr/share/man/man1/sqlstore-serve.1.gz", "/usr/share/bash-completion/completions/sqlstore",
		"/usr/share/zsh/site-functions/_sqlstore", "/usr/share/fish/vendor_completions.d/sqlstore.fish",
		"/usr/share/doc/sqlstore/copyright", "/usr/share/doc/sqlstore/sqlstore.yaml.example",
		"/usr/share/sqlstore/monitoring/rules.yaml", "/usr/share/sqlstore/monitoring/dashboard.json",
	} {
		if !slices.Contains(all[0], name) {
			t.Errorf("%s is missing in %q", name, all[0])
		}
	}
}

// RPM installs, upgrades and removes the package. The data stays, and so does a changed configuration.
func TestRPM(t *testing.T) {
	root := system(t)
	arch := strings.TrimSpace(run(t, "go", "env", "GOARCH"))
	// The system's packages are Debian's, so RPM finds no dependency.
	do := func(args ...string) { run(t, append([]string{"rpm", "--root", root, "--nodeps"}, args...)...) }
	in := func(command ...string) string {
		t.Helper()
		return strings.TrimSpace(run(t, append([]string{"chroot", root}, command...)...))
	}
	do("--install", rpm(t, version, arch))
	if got := in("stat", "--format=%U %a", filepath.Dir(data)); got != "sqlstore 700" {
		t.Errorf("the directory of the data is of %s", got)
	}
	in("sqlstore", "config", "check", "--config-file", config)
	for path, text := range map[string]string{config: "name: changed\n", data: "data"} {
		if err := os.WriteFile(root+path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	do("--upgrade", rpm(t, newer, arch))
	if said := in("sqlstore", "version"); !strings.Contains(said, newer) {
		t.Errorf("the new version is %s", said)
	}
	if got := in("cat", config, data); got != "name: changed\ndata" {
		t.Errorf("after the upgrade, the files are %q", got)
	}
	do("--erase", "sqlstore")
	if got := in("cat", data, config+".rpmsave"); got != "dataname: changed" {
		t.Errorf("after the removal, the files are %q", got)
	}
	if _, err := os.Stat(root + "/usr/bin/sqlstore"); err == nil {
		t.Error("the program is left")
	}
}
