package putback

import (
	"fmt"
	"math"
)

// Plan is what is to be written. Old values are in a temporary file: they may be compacted while somebody still decides
// whether to write them, and they may be larger than the memory.
type Plan struct {
	values *values
	all    []write
}

// write is the write of one key.
type write struct {
	key      string
	revision int64 // that the key must still have, 0 if it must not exist
	lease    int64
	fallback int64 // the lease to try if that one has ended
	deletes  bool
	value    place
	rank     int
}

// NewPlan creates an empty plan. Close it.
func NewPlan() (*Plan, error) {
	v, err := newValues()
	return &Plan{values: v}, err
}

// Close removes the file.
func (p *Plan) Close() error { return p.values.close() }

// Len returns how many keys are to be written.
func (p *Plan) Len() int { return len(p.all) }

// Add plans to put a key back, or to delete it if it did not exist. Keys of a lower rank are written first, and keys
// are deleted last. See [Plan.Rank].
func (p *Plan) Add(d *Difference) error {
	w := write{key: d.Key, lease: d.Lease}
	if d.Now != nil {
		w.revision, w.fallback = d.Now.ModRevision, d.Now.Lease
	}
	if d.Then == nil {
		w.deletes, w.rank = true, math.MaxInt
	} else {
		var err error
		if w.value, err = p.values.add(d.Then.Value); err != nil {
			return err
		}
	}
	p.all = append(p.all, w)
	return nil
}

// Rank sets the rank of the key that was added as the i-th, from 0, and is put back. It is 0 at first.
func (p *Plan) Rank(i, rank int) { p.all[i].rank = rank }

// value reads the value of a key.
func (p *Plan) value(w *write) (string, error) {
	value, err := p.values.get(w.value)
	if err != nil {
		return "", fmt.Errorf("read the old value of %q: %w", w.key, err)
	}
	return string(value), nil
}
