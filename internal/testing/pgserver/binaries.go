package pgserver

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// binaries are those of one Postgres installation.
type binaries struct {
	bin     string // their directory
	version string // the major version
}

// findBinaries returns the installation of a version. Without a version it prefers the default one, then PATH's.
func findBinaries(version string) (binaries, error) {
	var found []binaries
	for _, dir := range binaryDirs() {
		b := binaries{dir, versionOf(dir)}
		if b.version != "" && !slices.Contains(found, b) {
			found = append(found, b)
		}
	}
	if len(found) == 0 {
		return binaries{}, errors.New("no Postgres binaries: neither pg_config in PATH, nor /usr/lib/postgresql/*/bin")
	}
	want := version
	if want == "" {
		want = defaultVersion
	}
	if i := slices.IndexFunc(found, func(b binaries) bool { return b.version == want }); i >= 0 {
		return found[i], nil
	}
	if version != "" {
		return binaries{}, fmt.Errorf("no binaries of Postgres %s, but of %v", version, found)
	}
	return found[0], nil
}

func binaryDirs() []string {
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		// A link in PATH does not mean that the programs next to the server are linked, too.
		if path, err = filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", // Debian
		"/usr/pgsql-*/bin",          // Red Hat
		"/opt/homebrew/opt/postgresql@*/bin",
	} {
		m, _ := filepath.Glob(pattern)
		dirs = append(dirs, m...)
	}
	return dirs
}

// versionOf returns the major version of the server in dir, or "" if that contains only client programs.
func versionOf(dir string) string {
	if _, err := exec.LookPath(filepath.Join(dir, "initdb")); err != nil {
		return ""
	}
	out, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output()
	f := strings.Fields(string(out)) // postgres (PostgreSQL) 15.18 ...
	if err != nil || len(f) < 3 {
		return ""
	}
	major, _, _ := strings.Cut(f[2], ".")
	return major
}
