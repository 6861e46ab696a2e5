package bitrot

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// An index entry begins with the identifier of the row to which it leads: the page, then the row's number in it.
const tidNumber, tidSize = 4, 6

// TestEntriesThatLeadElsewhere damages what no scan of an index alone reads: which row an entry leads to. A search then
// finds another row or none.
func TestEntriesThatLeadElsewhere(t *testing.T) {
	p, twins := newVacuumedPlace(t)
	rng := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // repeatable
	all := func([]byte) bool { return true }
	for name, bit := range map[string]int{"another row": 0, "no row": 6} {
		for _, index := range []string{"object_versions_pkey", keyIndex, leaseIndex} {
			t.Run(index+" to "+name, func(t *testing.T) { p.mislead(t, rng, index, bit, all) })
		}
	}
	t.Run(leaseIndex+" to another row of the lease", func(t *testing.T) {
		p.mislead(t, rng, leaseIndex, 0, func(tid []byte) bool { return twins[string(tid)] })
	})
}

// newVacuumedPlace returns a database on Postgres without entries of dead rows, which may lead anywhere without harm.
// It also returns which row identifiers lead to a row of the same lease if their lowest bit flips.
func newVacuumedPlace(t *testing.T) (*place, map[string]bool) {
	t.Helper()
	pg, p := newPostgresPlace(t)
	if err := pg.up(); err != nil {
		t.Fatal(err)
	}
	pg.execute(t, "VACUUM object_versions")
	twins, err := leaseTwins(t.Context(), pg.dsn)
	if err := errors.Join(err, pg.down(), os.RemoveAll(p.sound), copyFiles(p.dir, p.sound)); err != nil {
		t.Fatal(err)
	}
	if len(twins) == 0 {
		t.Fatal("no two neighbouring rows have the same lease")
	}
	return p, twins
}

func leaseTwins(ctx context.Context, dsn string) (map[string]bool, error) {
	c, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close(ctx) }()
	rows, err := c.Query(ctx, "SELECT ctid, lease FROM object_versions WHERE lease <> 0")
	if err != nil {
		return nil, err
	}
	leases := map[pgtype.TID]int64{}
	var tid pgtype.TID
	var lease int64
	add := func() error { leases[tid] = lease; return nil }
	if _, err := pgx.ForEachRow(rows, []any{&tid, &lease}, add); err != nil {
		return nil, err
	}
	twins := map[string]bool{}
	for tid, lease := range leases {
		other := tid
		other.OffsetNumber ^= 1
		if leases[other] == lease {
			twins[string(stored(tid))] = true
		}
	}
	return twins, nil
}

// stored returns a row identifier as an index entry holds it.
func stored(tid pgtype.TID) []byte {
	b := binary.LittleEndian.AppendUint16(nil, uint16(tid.BlockNumber>>16))
	b = binary.LittleEndian.AppendUint16(b, uint16(tid.BlockNumber))
	return binary.LittleEndian.AppendUint16(b, tid.OffsetNumber)
}

// mislead flips a bit of the row's number in entries of an index.
func (p *place) mislead(t *testing.T, rng *rand.Rand, index string, bit int, suitable func(tid []byte) bool) {
	t.Helper()
	for range 3 {
		entry, err := chooseEntry(rng, p, index, suitable)
		if err != nil {
			t.Fatal(err)
		}
		entry.bit = bit
		a := p.round(t, 1, false, func() error { return entry.apply(p.dir) })
		switch {
		case a == nil: // the server does not start
		case len(a.wrong) > 0:
			t.Errorf("%v: %d wrong answers, the first: %s", entry, len(a.wrong), a.wrong[0])
		case a.errors == 0:
			t.Errorf("%v: nothing noticed the damage", entry)
		}
	}
}

const (
	keyIndex   = "object_versions_namespace_name_resource_version_deleted"
	leaseIndex = "object_versions_lease"
)

// chooseEntry draws a suitable entry of the leaves of an index.
func chooseEntry(rng *rand.Rand, p *place, index string, suitable func(tid []byte) bool) (*flip, error) {
	f := p.files[slices.IndexFunc(p.files, func(f *file) bool { return f.name == index })]
	raw, err := os.ReadFile(filepath.Join(p.sound, f.path))
	if err != nil {
		return nil, err
	}
	var entries []int64
	for at := int64(0); at < int64(len(raw)); at += page {
		parsed, err := parse(filepath.Join(p.sound, f.path), at)
		if err != nil {
			return nil, err
		}
		if !parsed.leaf || len(parsed.tuples) < 3 {
			continue
		}
		for _, tuple := range parsed.tuples[1:] { // the first may be the page's upper bound
			if entry := at + tuple[0]; suitable(raw[entry : entry+tidSize]) {
				entries = append(entries, entry)
			}
		}
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("%s has no suitable entry", index)
	}
	return &flip{file: f, offset: entries[rng.IntN(len(entries))] + tidNumber}, nil
}
