package programs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// What selects a binary is part of its path: the module's files, the toolchain and the flags. Nothing removes old
// binaries; deleting the directory costs no more than a build.

var built sync.Map // Program.File and Program.Package -> func() (string, error), which builds once

// Path returns the path of the program's binary. It builds it on the first call, unless an earlier test process has
// left it in the cache; a failed build fails the test.
func (p Program) Path(tb testing.TB) string {
	tb.Helper()
	path, err := p.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// Build is [Program.Path] outside of tests.
func (p Program) Build() (string, error) {
	once, _ := built.LoadOrStore(p.File+" "+p.Package, sync.OnceValues(p.build))
	path, err := once.(func() (string, error))()
	if err != nil {
		return "", fmt.Errorf("build %s: %w", p.Name, err)
	}
	return path, nil
}

// Version returns the version of the program's module.
func (p Program) Version(tb testing.TB) string {
	tb.Helper()
	m, err := p.module()
	if err != nil {
		tb.Fatal(err)
	}
	return m.version
}

func (p Program) build() (string, error) {
	m, err := p.module()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	place := filepath.Join(cache, "sqlstore-test", fmt.Sprintf("%s-%s-%s", p.Name, m.version, m.sum))
	if err := os.MkdirAll(place, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(place, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if p.File != "" {
		if err := m.write(place); err != nil {
			return "", err
		}
	}
	flags := []string{"-buildvcs=false", "-ldflags", p.linkerFlags(m.version)}
	path, err := p.binary(place, m.dir, flags)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	// At most two compilers and a low priority: these builds are long, and others share the machine.
	args := append([]string{"-n", "10", "go", "build", "-p", "2", "-o", path + ".new"}, flags...)
	if _, err := output(m.dir, "nice", append(args, p.Package)...); err != nil {
		return "", err
	}
	return path, os.Rename(path+".new", path) // an interrupted build leaves no partial binary under the name
}

func (p Program) linkerFlags(version string) string {
	flags := "-s -w"
	if p.Stamp != nil {
		for _, setting := range p.Stamp(version) {
			flags += " -X " + setting
		}
	}
	return flags
}

// binary returns the path of the binary that this toolchain builds with the flags.
func (p Program) binary(place, dir string, flags []string) (string, error) {
	env, err := output(dir, "go", "env", "-json", "GOVERSION", "GOOS", "GOARCH", "CGO_ENABLED")
	if err != nil {
		return "", err
	}
	var goenv struct{ GOVERSION string }
	if err := json.Unmarshal([]byte(env), &goenv); err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %q\n", p.Package, env, flags))
	in := filepath.Join(place, fmt.Sprintf("%s-%s", goenv.GOVERSION, hex.EncodeToString(sum[:6])))
	return filepath.Join(in, p.Name), os.MkdirAll(in, 0o755)
}

// lock takes an exclusive lock on a file, so that test processes that start together build once.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { _ = f.Close() }, nil // closing releases the lock
}

// output runs a command and returns what it prints, without the last newline.
func output(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	// Without the flags of the test run itself: -race belongs to another binary. A workspace would mix the versions of
	// all modules.
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, stderr.String())
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}
