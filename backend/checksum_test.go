package backend

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// stored is a row as a database stores it.
type stored struct {
	row          Row
	written, sum int64
}

func randomStored(r *rand.Rand) stored {
	number := func() int64 {
		return int64(r.Uint64() >> r.IntN(64))
	}
	bytes := func(least, most int) []byte {
		b := make([]byte, least+r.IntN(most-least))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	s := stored{row: Row{
		Key: bytes(1, 80), ModRevision: number(), CreateRevision: number(), Version: number(), Lease: number(),
		PrevRevision: number(), Ordinal: int32(r.Uint32()), Deleted: r.IntN(4) == 0,
	}, written: number()}
	if !s.row.Deleted {
		s.row.Value = bytes(0, 300)
	}
	s.sum = new(Sums).Of(&s.row, s.written)
	return s
}

// flips returns functions that flip each bit of each column of s.
func (s *stored) flips() (all []func()) {
	for _, n := range []*int64{
		&s.row.ModRevision, &s.row.CreateRevision, &s.row.Version, &s.row.Lease, &s.row.PrevRevision, &s.written,
		&s.sum,
	} {
		for bit := range 64 {
			all = append(all, func() { *n ^= 1 << bit })
		}
	}
	for bit := range 32 {
		all = append(all, func() { s.row.Ordinal ^= 1 << bit })
	}
	for _, b := range [][]byte{s.row.Key, s.row.Value} {
		for i := range 8 * len(b) {
			all = append(all, func() { b[i/8] ^= 1 << (i % 8) })
		}
	}
	return append(all, func() { s.row.Deleted = !s.row.Deleted })
}

// lower is the place in flips of the checksum's lower half.
const lower = 6 * 64

// Any single flipped bit in any column is detected, and without the value, any in the other columns.
func TestChecksumDetectsFlips(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var sums Sums
	for range 60 {
		s := randomStored(random)
		if err := sums.Check(&s.row, s.written, s.sum); err != nil {
			t.Fatalf("an intact row: %v", err)
		}
		head := len(s.flips()) - 8*len(s.row.Value) - 1 // without the value, and without the tombstone's flag
		for i, flip := range s.flips() {
			flip()
			valueOnly := i >= head && i < head+8*len(s.row.Value) || i >= lower && i < lower+32
			if err := sums.CheckHead(&s.row, s.written, s.sum); (err == nil) != valueOnly {
				t.Fatalf("flip %d of %+v in the head: %v", i, s, err)
			}
			var damaged *CorruptRow
			err := sums.Check(&s.row, s.written, s.sum)
			if !errors.As(err, &damaged) || !errors.Is(err, ErrCorrupt) || damaged.ID != s.row.ID() {
				t.Fatalf("flip %d of %+v: %v", i, s, err)
			}
			flip()
		}
	}
}

// Flips of several bits are detected, too, unless they happen to have the same sum, and so is a value that is missing,
// cut, or another row's.
func TestChecksumDetectsMore(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var sums Sums
	for range 2000 {
		s, other := randomStored(random), randomStored(random)
		flips := s.flips()
		for _, i := range random.Perm(len(flips))[:2+random.IntN(30)] {
			flips[i]()
		}
		if sums.Check(&s.row, s.written, s.sum) == nil {
			t.Fatalf("flips in %+v", s)
		}
		if s = randomStored(random); s.row.Deleted || len(s.row.Value) == 0 {
			continue
		}
		for _, value := range [][]byte{
			nil, {}, s.row.Value[1:], append(slices.Clip(s.row.Value), 0), append(slices.Clip(other.row.Value), 1),
		} {
			r := s.row
			r.Value = value
			if sums.Check(&r, s.written, s.sum) == nil {
				t.Fatalf("value %q in place of %q", value, s.row.Value)
			}
		}
		joined := s // a byte that moves from the value to the key
		joined.row.Key = append(slices.Clip(s.row.Key), s.row.Value[0])
		joined.row.Value = s.row.Value[1:]
		if sums.Check(&joined.row, joined.written, joined.sum) == nil {
			t.Fatal("a moved byte")
		}
	}
}

// The encoding is fixed: stored checksums depend on it.
func TestChecksumEncoding(t *testing.T) {
	r := Row{
		Key: []byte("k"), Value: []byte("value"), ModRevision: 7, Ordinal: 2, CreateRevision: 5, Version: 3, Lease: -1,
		PrevRevision: 6,
	}
	var head []byte
	for _, n := range []uint64{7, 2, 5, 3, math.MaxUint64, 6, 1_700_000_000_123, 0} {
		head = binary.BigEndian.AppendUint64(head, n)
	}
	head = append(head, 'k')
	table := crc32.MakeTable(crc32.Castagnoli)
	whole := crc32.Checksum(append(slices.Clip(head), "value"...), table)
	want := int64(uint64(crc32.Checksum(head, table))<<32 | uint64(whole))
	if got := new(Sums).Of(&r, 1_700_000_000_123); got != want {
		t.Errorf("checksum %#x, want %#x", uint64(got), uint64(want))
	}
}

func TestCorruptRowSaysWhatToDo(t *testing.T) {
	err := error(&CorruptRow{Key: []byte("/pods/" + strings.Repeat("x", 5000)), ID: RowID{ModRevision: 42}})
	for _, part := range []string{`"/pods/xxx`, "revision 42", "sqlstore check"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("no %s in: %v", part, err)
		}
	}
	if len(err.Error()) > 1000 {
		t.Errorf("a message of %d bytes", len(err.Error()))
	}
}

func BenchmarkChecksum(b *testing.B) {
	r := Row{Key: make([]byte, 60), Value: make([]byte, 1024), ModRevision: 1}
	var sums Sums
	b.ReportAllocs()
	for b.Loop() {
		sums.Of(&r, 1)
	}
}
