package store

import (
	"fmt"
	"testing"
)

// FuzzTxn runs a short history of transactions of all kinds against the model, with and without the index.
func FuzzTxn(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(randomBytes(seed, 300), seed%2 == 0)
	}
	f.Add([]byte{}, true)
	f.Fuzz(func(t *testing.T, data []byte, disabled bool) {
		w := newWorld(t, small(Config{DisableIndex: disabled}), false, 0, data)
		for n := 0; !w.g.done() && n < 50 && !t.Failed(); n++ {
			w.txn(within(t))
		}
		w.checkAll()
	})
}

// FuzzRange reads ranges of one history from the index, its snapshots and the database, and compacts the history in
// between.
func FuzzRange(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(randomBytes(seed, 300), seed%2 == 0)
	}
	f.Add([]byte{}, true)
	f.Fuzz(func(t *testing.T, data []byte, disabled bool) {
		w := newWorld(t, small(Config{DisableIndex: disabled}), false, 0, randomBytes(1, 400))
		for !w.g.done() {
			w.txn(within(t))
		}
		w.g.dice = &dice{data}
		for n := 0; !w.g.done() && n < 100 && !t.Failed(); n++ {
			switch r := w.g.rangeRequest(); w.g.roll(8) {
			case 7:
				w.compact(within(t))
			case 6:
				w.stream(within(t))
			default:
				got, err := w.s.Range(within(t), r)
				want, wantErr := w.m.rangeAt(r)
				w.same(fmt.Sprintf("%+v", r), rangeText(got, err), rangeText(want, wantErr))
			}
		}
	})
}

// FuzzWatch watches a history from any revision while requests of all other kinds run.
func FuzzWatch(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(randomBytes(seed, 300))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		w := newWorld(t, small(Config{}), false, 0, data)
		for n := 0; !w.g.done() && n < 60 && !t.Failed(); n++ {
			w.step()
		}
		w.settle()
	})
}
