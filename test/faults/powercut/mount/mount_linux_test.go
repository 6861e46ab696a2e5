package mount

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/test/faults/powercut/disk"
)

// mounted mounts a disk until the test ends, or unmount is called.
func mounted(t *testing.T, d *disk.Disk) (dir string, unmount func()) {
	t.Helper()
	dir = t.TempDir()
	m, err := At(dir, d)
	if err != nil {
		t.Fatal(err)
	}
	done := false
	unmount = func() {
		if !done {
			done = true
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(unmount)
	return dir, unmount
}

func runs(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := run(dir, name); err != nil {
			t.Fatal(err)
		}
	}
}

// survivors describes what the file is after a cut, with many seeds.
func survivors(t *testing.T, d *disk.Disk) map[string]bool {
	t.Helper()
	const seeds = 300
	found := map[string]bool{}
	for seed := range uint64(seeds) {
		after, _ := d.Clone().Survive(rand.New(rand.NewPCG(seed, 0)))
		a, err := after.Find("/file")
		if err != nil {
			found["none"] = true
			continue
		}
		b := make([]byte, a.Size)
		if _, err := after.Read(a.ID, 0, b); err != nil {
			t.Fatal(err)
		}
		found[strings.ReplaceAll(string(b), "\x00", "0")] = true
	}
	return found
}

// The kernel passes on every write and sync before a program goes on, so a cut takes away what was not synced and
// nothing else.
func TestSyncs(t *testing.T) {
	for _, c := range []struct {
		children, want []string
	}{
		{[]string{"write"}, []string{"none", "", "0000000", "written"}},
		{[]string{"write", "sync directory"}, []string{"", "0000000", "written"}},
		{[]string{"write", "sync"}, []string{"none", "written"}},
		{[]string{"write", "sync", "sync directory"}, []string{"written"}},
		{[]string{"write", "sync", "sync directory", "map"}, []string{"changed"}},
		{[]string{"write", "sync", "sync directory", "append synchronously"}, []string{"written, appended"}},
	} {
		d := disk.New()
		dir, unmount := mounted(t, d)
		runs(t, dir, c.children...)
		found := survivors(t, d)
		unmount()
		for _, w := range c.want {
			if !found[w] {
				t.Errorf("%v: never %q", c.children, w)
			}
			delete(found, w)
		}
		if len(found) > 0 {
			t.Errorf("%v: also %v", c.children, found)
		}
	}
}

// Nothing changes after a cut, and what the disk still holds can be mounted again.
func TestCut(t *testing.T) {
	d := disk.New()
	dir, unmount := mounted(t, d)
	runs(t, dir, "write", "sync", "sync directory")
	d.Cut()
	for _, name := range []string{"write", "sync", "sync directory", "append synchronously"} {
		if err := run(dir, name); err == nil || !strings.Contains(err.Error(), "input/output error") {
			t.Errorf("without power: %v", err)
		}
	}
	unmount()
	after, _ := d.Survive(rand.New(rand.NewPCG(1, 0)))
	dir, _ = mounted(t, after)
	runs(t, dir, "map", "append synchronously")
	if found := survivors(t, after); len(found) != 1 || !found["changed, appended"] {
		t.Errorf("found %v", found)
	}
}

// The file system behaves like others, and the disk is empty in the end.
func TestUse(t *testing.T) {
	d := disk.New()
	dir, unmount := mounted(t, d)
	runs(t, dir, "use")
	unmount()
	if names, err := d.List(disk.Root); err != nil || len(names) != 0 {
		t.Errorf("left over: %v, %v", names, err)
	}
}

// What is mounted can be copied to the machine and back.
func TestCopies(t *testing.T) {
	d := disk.New()
	dir, _ := mounted(t, d)
	runs(t, dir, "write")
	to := t.TempDir()
	if err := d.Export(to); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(to + "/file"); err != nil || string(b) != "written" {
		t.Errorf("exported %q, %v", b, err)
	}
	copied := disk.New()
	if err := copied.Import(to); err != nil {
		t.Fatal(err)
	}
	if found := fmt.Sprint(survivors(t, copied)); found != "map[written:true]" {
		t.Errorf("imported %v", found)
	}
}
