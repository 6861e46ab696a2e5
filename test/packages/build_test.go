package packages

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/internal/testing/pages"
)

// Versions that the suite builds, those in docs/install.md: a package of the second upgrades one of the first.
const (
	version = "0.1.0"
	newer   = "0.2.0"
)

// work is a directory for what the tests share.
var work string

func TestMain(m *testing.M) {
	var err error
	if work, err = os.MkdirTemp("", "sqlstore-packages-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(work)
	os.Exit(code)
}

var builds sync.Map // version -> func() (string, error)

// built returns the directory of the release of this tree as a version, which it builds once.
func built(t *testing.T, version string) string {
	t.Helper()
	root := pages.Root(t)
	once, _ := builds.LoadOrStore(version, sync.OnceValues(func() (string, error) {
		return build(root, filepath.Join(work, "tree-"+version), version)
	}))
	dist, err := once.(func() (string, error))()
	if err != nil {
		t.Fatal(err)
	}
	return dist
}

// build copies the tree at root, with what is not committed, and builds a release there. The newer version has another
// list of settings.
func build(root, tree, version string, more ...string) (dist string, err error) {
	const copied = `git clone --quiet --upload-pack='git -c safe.directory=* upload-pack' "$1" "$2" && cd "$1" &&
		git ls-files -z --cached --others --exclude-standard |
		tar --create --null --ignore-failed-read --files-from - | tar --extract --directory "$2" &&
		ln -s "$1/bin" "$2/bin"
		[ "$3" != ` + newer + ` ] || echo '# A new setting.' >>"$2/packaging/sqlstore.yaml.example"`
	// The tools are built; make must not build them again because the copy's files are younger.
	makes := exec.Command("make", "--directory", tree, "--old-file=bin/goreleaser", "--old-file=bin/cyclonedx-gomod",
		"packages", "PACKAGE_VERSION="+version)
	copies := exec.Command("bash", "-o", "pipefail", "-euc", copied, "copy", root, tree, version)
	for _, cmd := range []*exec.Cmd{copies, makes} {
		cmd.Env = append(os.Environ(), "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory",
			"GIT_CONFIG_VALUE_0=*", "MAKEFLAGS=")
		cmd.Env = append(cmd.Env, more...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w\n%s", cmd, err, out)
		}
	}
	return filepath.Join(tree, "dist"), nil
}

// Two builds in different directories are equal. The whole suite also compiles everything again.
func TestReproducible(t *testing.T) {
	first := built(t, version)
	var fresh []string
	if env.Whole.Text() != "" {
		fresh = append(fresh, "GOCACHE="+t.TempDir())
	}
	second, err := build(pages.Root(t), filepath.Join(t.TempDir(), "other"), version, fresh...)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range artifacts(t, first) {
		one, err := os.ReadFile(filepath.Join(first, name))
		if err != nil {
			t.Fatal(err)
		}
		other, err := os.ReadFile(filepath.Join(second, name))
		if err != nil || !bytes.Equal(one, other) {
			t.Errorf("%s differs, %v", name, err)
		}
	}
}

// artifacts returns the names of the release's files, which its checksums name.
func artifacts(t *testing.T, dist string) (names []string) {
	t.Helper()
	sums, err := os.ReadFile(filepath.Join(dist, "checksums.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(sums)) {
		_, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		names = append(names, name)
	}
	slices.Sort(names)
	return append(names, "checksums.txt")
}

// The release is complete, and its checksums are right.
func TestChecksums(t *testing.T) {
	dist := built(t, version)
	want := []string{
		"sqlstore-0.1.0-1.aarch64.rpm", "sqlstore-0.1.0-1.x86_64.rpm",
		"sqlstore_0.1.0_amd64.deb", "sqlstore_0.1.0_arm64.deb",
		"sqlstore_0.1.0_linux_amd64.cdx.json", "sqlstore_0.1.0_linux_amd64.tar.gz",
		"sqlstore_0.1.0_linux_arm64.cdx.json", "sqlstore_0.1.0_linux_arm64.tar.gz", "checksums.txt",
	}
	if got := artifacts(t, dist); !slices.Equal(got, want) {
		t.Errorf("the release has\n%q, want\n%q", got, want)
	}
	check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "checksums.txt")
	check.Dir = dist
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The bills of material name the modules in the programs, SQLite's among them, and the console's charts.
func TestBillsOfMaterial(t *testing.T) {
	dist := built(t, version)
	for _, arch := range []string{"amd64", "arm64"} {
		path := filepath.Join(dist, "sqlstore_"+version+"_linux_"+arch+".cdx.json")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var bill struct {
			BOMFormat string
			Metadata  struct {
				Component struct{ Name, Version string }
			}
			Components []struct{ Name string }
		}
		if err := json.Unmarshal(text, &bill); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		of := bill.Metadata.Component
		if bill.BOMFormat != "CycloneDX" || of.Name != "github.com/sqlstore/sqlstore" || of.Version != version {
			t.Errorf("%s is a bill of %+v in the format %q", path, of, bill.BOMFormat)
		}
		for _, name := range []string{"github.com/mattn/go-sqlite3", "std", "uplot"} {
			if !slices.ContainsFunc(bill.Components, func(c struct{ Name string }) bool { return c.Name == name }) {
				t.Errorf("%s lacks %s", path, name)
			}
		}
	}
}

// program unpacks the program of an archive, and returns its path.
func program(t *testing.T, arch string) string {
	t.Helper()
	name, dir := "sqlstore_"+version+"_linux_"+arch, t.TempDir()
	archive := filepath.Join(built(t, version), name+".tar.gz")
	run(t, "tar", "--extract", "--gunzip", "--file", archive, "--directory", dir)
	return filepath.Join(dir, name, "sqlstore")
}

// The programs load no library, and say what they were built from.
func TestStatic(t *testing.T) {
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		f, err := elf.Open(program(t, arch))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		libraries, err := f.ImportedLibraries()
		if err != nil || len(libraries) > 0 || f.Machine != machine ||
			slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
			t.Errorf("%s is for %s and loads %q, %v", arch, f.Machine, libraries, err)
		}
	}
}

// run runs a command, which must succeed, and returns what it prints.
func run(t *testing.T, command ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
	return string(out)
}
