package disk

import (
	"errors"
	"strings"
	"syscall"
	"testing"
)

// outcomes cuts the power of the disk that prepare makes, with many seeds, and counts what describe says of the disks.
func outcomes(t *testing.T, prepare func(d *Disk), describe func(d *Disk) string) map[string]int {
	t.Helper()
	const seeds = 2000
	d, found := New(), map[string]int{}
	prepare(d)
	for seed := range uint64(seeds) {
		after, _ := d.Clone().Survive(seeded(seed))
		found[describe(after)]++
	}
	return found
}

// Every kind of loss really happens, and nothing that is synced is lost.
func TestLosses(t *testing.T) {
	letters := func(text string) string { // the first letter of each sector
		var b strings.Builder
		for at := 0; at < len(text); at += Sector {
			if text[at] == 0 {
				b.WriteByte('0')
			} else {
				b.WriteByte(text[at])
			}
		}
		return b.String()
	}
	fill := func(letter string, sectors int) []byte { return []byte(strings.Repeat(letter, sectors*Sector)) }
	file := func(d *Disk) string {
		text, ok := content(t, d, "/f")
		if !ok {
			return "none"
		}
		return letters(text)
	}
	synced := func(d *Disk) uint64 { // a file that is there
		id := create(t, d, "f")
		must(t, d.Write(id, 0, fill("a", 2)))
		must(t, d.Sync(id))
		must(t, d.Sync(Root))
		return id
	}
	names := func(d *Disk) string {
		list, err := d.List(Root)
		must(t, err)
		return strings.Join(list, " ")
	}
	for name, c := range map[string]struct {
		prepare  func(d *Disk)
		describe func(d *Disk) string
		want     string // all outcomes, which a comma separates
	}{
		"synced":     {func(d *Disk) { synced(d) }, file, "aa"},
		"overwrite":  {func(d *Disk) { must(t, d.Write(synced(d), 0, fill("b", 2))) }, file, "aa,ab,ba,bb"},
		"part":       {func(d *Disk) { must(t, d.Write(synced(d), Sector, fill("b", 1))) }, file, "aa,ab"},
		"extension":  {func(d *Disk) { must(t, d.Write(synced(d), 2*Sector, fill("b", 1))) }, file, "aa,aa0,aab"},
		"truncation": {func(d *Disk) { must(t, d.Resize(synced(d), Sector)) }, file, "a,aa"},
		"two writes": {func(d *Disk) {
			id := synced(d)
			must(t, d.Write(id, 0, fill("b", 1)))
			must(t, d.Write(id, 0, fill("c", 1)))
		}, file, "aa,ba,ca"},
		"out of order": {func(d *Disk) {
			id := synced(d)
			must(t, d.Write(id, 0, fill("b", 1)))
			must(t, d.Write(id, Sector, fill("c", 1)))
		}, file, "aa,ac,ba,bc"},
		"write after truncation": {func(d *Disk) {
			id := synced(d)
			must(t, d.Resize(id, 0))
			must(t, d.Write(id, 0, fill("b", 2)))
		}, file, ",00,0b,aa,b0,bb"},
		"file whose directory is not synced": {func(d *Disk) {
			id := create(t, d, "f")
			must(t, d.Write(id, 0, fill("a", 1)))
			must(t, d.Sync(id))
		}, file, "a,none"},
		"file that is not synced, in a directory that is": {func(d *Disk) {
			must(t, d.Write(create(t, d, "f"), 0, fill("a", 1)))
			must(t, d.Sync(Root))
		}, file, ",0,a"},
		"creates": {func(d *Disk) { create(t, d, "f"); create(t, d, "g") }, names, ",f,f g"},
		"removal": {func(d *Disk) { synced(d); must(t, d.Unlink(Root, "f")) }, names, ",f"},
		"rename":  {func(d *Disk) { synced(d); must(t, d.Rename(Root, "f", Root, "g", false)) }, names, "f,g"},
		"replacement": {func(d *Disk) {
			synced(d)
			id := create(t, d, "g")
			must(t, d.Write(id, 0, fill("b", 1)))
			must(t, d.Sync(id))
			must(t, d.Rename(Root, "g", Root, "f", false))
		}, file, "aa,b"},
		"replacement that is not synced": {func(d *Disk) {
			synced(d)
			must(t, d.Write(create(t, d, "g"), 0, fill("b", 1)))
			must(t, d.Rename(Root, "g", Root, "f", false))
			must(t, d.Sync(Root))
		}, file, ",0,b"},
	} {
		found := outcomes(t, c.prepare, c.describe)
		want := map[string]bool{}
		for o := range strings.SplitSeq(c.want, ",") {
			want[o] = true
		}
		for o := range want {
			if found[o] == 0 {
				t.Errorf("%s: never %q, but %v", name, o, found)
			}
		}
		for o := range found {
			if !want[o] {
				t.Errorf("%s: %q", name, o)
			}
		}
	}
}

// The sync of a directory saves a rename in both directories, and what was there to be renamed.
func TestRenameIsWhole(t *testing.T) {
	for o := range outcomes(t, func(d *Disk) {
		a, err := d.Mkdir(Root, "dir", 0o700, 0, 0)
		must(t, err)
		must(t, d.Sync(Root))
		create(t, d, "f")
		must(t, d.Rename(Root, "f", a.ID, "g", false))
		must(t, d.Sync(a.ID))
	}, func(d *Disk) string {
		_, f := content(t, d, "/f")
		_, g := content(t, d, "/dir/g")
		if f || !g {
			return "half"
		}
		return "moved"
	}) {
		if o != "moved" {
			t.Error(o)
		}
	}
}

// The power is cut at the operation aimed at, which saves nothing, and everything fails afterwards.
func TestAim(t *testing.T) {
	d := New()
	id := create(t, d, "f")
	must(t, d.Sync(Root))
	d.Arm(Aim{Matches: func(k Kind, path string) bool { return k == Sync && path == "/f" }, At: 2})
	must(t, d.Write(id, 0, []byte("a")))
	must(t, d.Sync(id))
	must(t, d.Write(id, 0, []byte("b")))
	select {
	case <-d.Down():
		t.Fatal("the power is off too early")
	default:
	}
	if err := d.Sync(id); !errors.Is(err, syscall.EIO) {
		t.Fatalf("the sync that is cut: %v", err)
	}
	<-d.Down()
	for name, err := range map[string]error{
		"read": second(d.Read(id, 0, make([]byte, 1))), "write": d.Write(id, 0, []byte("c")), "sync": d.Sync(id),
		"stat": second(d.Stat(id)), "lookup": second(d.Lookup(Root, "f")), "unlink": d.Unlink(Root, "f"),
		"list": second(d.List(Root)), "create": second(d.Create(Root, "g", 0, 0, 0)),
	} {
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("%s without power: %v", name, err)
		}
	}
	if got := d.Hit(); got != "sync of /f" {
		t.Errorf("cut at %q", got)
	}
	texts := map[string]bool{}
	const seeds = 100
	for seed := range uint64(seeds) {
		after, _ := d.Clone().Survive(seeded(seed))
		text, _ := content(t, after, "/f")
		texts[text] = true
	}
	if len(texts) != 2 || !texts["a"] || !texts["b"] {
		t.Errorf("the file is one of %v, want a or b", texts)
	}
}

func second[T any](_ T, err error) error { return err }

// What a failed sync leaves out can be read, and no later sync saves it.
func TestFailedSync(t *testing.T) {
	d := New()
	id := create(t, d, "file")
	must(t, d.Sync(Root))
	must(t, d.Write(id, 0, []byte("saved")))
	must(t, d.Sync(id))
	d.Arm(Aim{At: 2, Fails: true, Matches: func(k Kind, _ string) bool { return k == Sync }})
	must(t, d.Sync(id))
	must(t, d.Write(id, 0, []byte("L")))
	if err := d.Sync(id); !errors.Is(err, syscall.EIO) || !d.Disarm() {
		t.Errorf("%v", err)
	}
	<-d.Faulty()
	must(t, d.Write(id, 4, []byte("D")))
	must(t, d.Sync(id))
	if text, _ := content(t, d, "/file"); text != "LaveD" {
		t.Errorf("%q can be read", text)
	}
	after, _ := d.Survive(seeded(1))
	if text, _ := content(t, after, "/file"); text != "saveD" || d.Hit() != "failed sync of /file" {
		t.Errorf("%q after %s", text, d.Hit())
	}
}

// On a journaled disk the sync of a file saves the entries, too.
func TestJournaled(t *testing.T) {
	for o := range outcomes(t, func(d *Disk) {
		d.Journaled = true
		create(t, d, "other")
		must(t, d.Sync(create(t, d, "f")))
		create(t, d, "later")
	}, func(d *Disk) string {
		names, err := d.List(Root)
		must(t, err)
		return strings.Join(names, " ")
	}) {
		if o != "f other" && o != "f later other" {
			t.Errorf("found %q", o)
		}
	}
}
