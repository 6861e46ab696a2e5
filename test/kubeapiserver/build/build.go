// Package build builds the real programs that the tests run (kube-apiserver, kubectl, kwok, etcd) from their Go
// modules and keeps them in the user's cache directory, because linking them takes minutes.
//
// A binary is kept under the hash of its inputs: the module's go.mod and go.sum, the toolchain and the flags. Nothing
// removes old binaries; deleting the directory costs no more than a build.
package build

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

// Program says which command to build.
type Program struct {
	// Name is the file name of the binary.
	Name string
	// Package is the import path of the command, a tool of the module in Dir.
	Package string
	// Module is the module whose version is part of the binary's cache path and is passed to Stamp.
	Module string
	// Dir is the directory of the go.mod to build with, relative to this module's root.
	Dir string
	// Stamp returns the linker's -X settings ("name=value") for the module's version; may be nil.
	Stamp func(version string) []string
}

// The programs that the tests run.
var (
	APIServer         = kubernetes("kube-apiserver")
	ControllerManager = kubernetes("kube-controller-manager")
	Scheduler         = kubernetes("kube-scheduler")
	Kubectl           = kubernetes("kubectl")
	Kubeadm           = kubernetes("kubeadm")
	Etcd              = Program{
		Name:    "etcd",
		Package: "go.etcd.io/etcd/server/v3",
		Module:  "go.etcd.io/etcd/server/v3",
		Dir:     "../bench/etcd",
	}
	Etcdctl = etcdTool("etcdctl")
	Etcdutl = etcdTool("etcdutl")
	Kwok    = kwok("kwok")
	Kwokctl = kwok("kwokctl")
)

func kwok(command string) Program {
	const module = "sigs.k8s.io/kwok"
	return Program{
		Name: command, Package: module + "/cmd/" + command, Module: module, Dir: "../launchers/kwok/programs",
	}
}

func etcdTool(name string) Program {
	module := "go.etcd.io/etcd/" + name + "/v3"
	return Program{Name: name, Package: module, Module: module, Dir: "../etcd"}
}

func kubernetes(command string) Program {
	return Program{
		Name:    command,
		Package: "k8s.io/kubernetes/cmd/" + command,
		Module:  "k8s.io/kubernetes",
		Dir:     "kubernetes",
		Stamp:   stampKubernetes,
	}
}

// stampKubernetes sets what Kubernetes' own build sets: otherwise kube-apiserver considers itself v0.0.0-master and
// refuses to emulate that version.
func stampKubernetes(version string) []string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	var settings []string
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		settings = append(settings,
			pkg+".gitVersion="+version, pkg+".gitMajor="+parts[0], pkg+".gitMinor="+parts[1])
	}
	return settings
}

var built sync.Map // Program.Package -> func() (string, error), which builds once

// Path returns the path of the program's binary. It builds it on the first call, unless an earlier test process has
// left it in the cache; a failed build fails the test.
func (p Program) Path(tb testing.TB) string {
	tb.Helper()
	once, _ := built.LoadOrStore(p.Package, sync.OnceValues(p.build))
	path, err := once.(func() (string, error))()
	if err != nil {
		tb.Fatalf("build %s: %v", p.Name, err)
	}
	return path
}

// Version returns the version of the program's module.
func (p Program) Version(tb testing.TB) string {
	tb.Helper()
	_, version, err := p.module()
	if err != nil {
		tb.Fatal(err)
	}
	return version
}

// module returns the directory to build in and the version of the program's module.
func (p Program) module() (dir, version string, err error) {
	root, err := moduleRoot()
	if err != nil {
		return "", "", err
	}
	dir = filepath.Join(root, p.Dir)
	version, err = output(dir, "go", "list", "-m", "-f", "{{.Version}}", p.Module)
	return dir, version, err
}

func (p Program) build() (string, error) {
	dir, version, err := p.module()
	if err != nil {
		return "", err
	}
	flags := []string{"-buildvcs=false", "-ldflags", p.linkerFlags(version)}
	place, err := p.place(dir, version, flags)
	if err != nil {
		return "", err
	}
	unlock, err := lock(place + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	path := filepath.Join(place, p.Name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	// At most two compilers and a low priority: these builds are long, and others share the machine.
	args := append([]string{"-n", "10", "go", "build", "-p", "2", "-o", path + ".new"}, flags...)
	if _, err := output(dir, "nice", append(args, p.Package)...); err != nil {
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

// place returns the cache directory for a binary with these inputs.
func (p Program) place(dir, version string, flags []string) (string, error) {
	env, err := output(dir, "go", "env", "-json", "GOVERSION", "GOOS", "GOARCH", "CGO_ENABLED")
	if err != nil {
		return "", err
	}
	var goenv struct{ GOVERSION, GOOS, GOARCH string }
	if err := json.Unmarshal([]byte(env), &goenv); err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%s %s %q\n", p.Package, env, flags)
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		hash.Write(content)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	place := filepath.Join(cache, "sqlstore-test",
		fmt.Sprintf("%s-%s-%s-%s", p.Name, version, goenv.GOVERSION, hex.EncodeToString(hash.Sum(nil)[:6])))
	return place, os.MkdirAll(place, 0o755)
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

// moduleRoot returns the directory of this package's module, whichever module's test runs.
func moduleRoot() (string, error) {
	return output(".", "go", "list", "-m", "-f", "{{.Dir}}", "github.com/sqlstore/sqlstore/test/kubeapiserver")
}

// output runs a command and returns what it prints, without the last newline.
func output(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	// Without the flags of the test run itself: -race belongs to another binary. Otherwise as for the tests, so that
	// shared packages such as the standard library are compiled once.
	cmd.Env = append(os.Environ(), "GOFLAGS=")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, stderr.String())
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}
