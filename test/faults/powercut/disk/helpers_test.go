package disk

import (
	"errors"
	"math/rand/v2"
	"syscall"
	"testing"
)

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// create makes an empty file in the root directory and returns its id.
func create(t *testing.T, d *Disk, name string) uint64 {
	t.Helper()
	a, err := d.Create(Root, name, 0o600, 0, 0)
	must(t, err)
	return a.ID
}

// content returns a file's content; ok is false if there is no such file.
func content(t *testing.T, d *Disk, path string) (text string, ok bool) {
	t.Helper()
	a, err := d.Find(path)
	if errors.Is(err, syscall.ENOENT) {
		return "", false
	}
	must(t, err)
	b := make([]byte, a.Size)
	n, err := d.Read(a.ID, 0, b)
	must(t, err)
	return string(b[:n]), true
}
