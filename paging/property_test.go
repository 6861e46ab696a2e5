package paging

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sqlstore/sqlstore/internal/store"
)

// prefixes are the prefixes that the test lists: with neighbours that differ in the last byte, without an end, and
// everything.
var prefixes = []string{"/p/", "/p", "/q/", "/p/../", "/p/\xff", "\xff", "\xff\xff", "\x00", "a", ""}

// randomKey returns a key below one of the prefixes, or next to it.
func randomKey(r *rand.Rand) string {
	key := prefixes[r.IntN(len(prefixes)-1)]
	for range r.IntN(4) {
		key += []string{"/", "..", ".", "\x00", "\xff", "\xfe", "a", "b", "ab", "/../", "\x01"}[r.IntN(11)]
	}
	return key
}

// history contains all writes, in a random but repeatable order.
type history struct {
	mu  sync.Mutex
	ops []written
}

type written struct {
	key, value string // no value for a deletion
	revision   int64
}

// change makes one random change through a replica.
func (h *history) change(t *testing.T, random *rand.Rand, to *replica) {
	w := written{key: randomKey(random)}
	if random.IntN(4) > 0 {
		w.value = fmt.Sprint("v", random.IntN(1000))
		w.revision = put(t, to, w.key, w.value)
	} else {
		res, err := to.Delete(within(t), &store.DeleteRequest{Key: []byte(w.key)})
		if err != nil {
			t.Error(err)
			return
		}
		if w.revision = res.Revision; res.Deleted == 0 {
			return // without its own revision
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, w)
}

// at returns the list of a prefix at a revision.
func (h *history) at(prefix string, revision int64) []string {
	newest := map[string]written{}
	for _, w := range h.ops {
		if w.revision <= revision && w.revision > newest[w.key].revision && strings.HasPrefix(w.key, prefix) {
			newest[w.key] = w
		}
	}
	var out []string
	for key, w := range newest {
		if w.value != "" {
			out = append(out, fmt.Sprintf("%q=%s@%d", key, w.value, w.revision))
		}
	}
	slices.Sort(out)
	return out
}

// whole is a list that was read in pages.
type whole struct {
	prefix   string
	revision int64
	rows     []string
	keys     []string
	left     []int64 // remaining after each page
	sizes    []int   // of the pages
}

func (w *whole) add(rows []*store.Row, page Page) {
	for _, r := range rows {
		w.rows = append(w.rows, fmt.Sprintf("%q=%s@%d", r.Key, r.Value, r.ModRevision))
	}
	w.keys = append(w.keys, keysOf(rows)...)
	w.left, w.sizes = append(w.left, page.Remaining), append(w.sizes, len(rows))
}

// pages reads a list from its first page to its last, of random sizes, each from a random replica.
func pages(t *testing.T, random *rand.Rand, all []*replica, o ListOptions) (w whole) {
	w.prefix = prefixes[random.IntN(len(prefixes))]
	for {
		o.Limit = 1 + random.Int64N(20)
		if random.IntN(10) == 0 && o.Continue != "" {
			o.Limit = 0 // all the rest
		}
		rows, page := mustList(t, all[random.IntN(len(all))], w.prefix, o)
		switch {
		case w.revision == 0:
			w.revision = page.Revision
		case page.Revision != w.revision:
			t.Errorf("a page at %d of a list at %d", page.Revision, w.revision)
		}
		if o.Limit > 0 && int64(len(rows)) > o.Limit || page.Continue != "" && int64(len(rows)) != o.Limit ||
			(page.Continue == "") != (page.Remaining == 0) {
			t.Errorf("%d rows for %+v, then %+v", len(rows), o, page)
		}
		w.add(rows, page)
		if page.Continue == "" {
			return w
		}
		o = ListOptions{Continue: page.Continue}
	}
}

// check compares a list with the writes.
func (h *history) check(t *testing.T, w whole) {
	t.Helper()
	want := h.at(w.prefix, w.revision)
	got := slices.Clone(w.rows)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("list of %q at %d:\n got %s\nwant %s", w.prefix, w.revision, got, want)
	}
	if !slices.IsSorted(w.keys) {
		t.Errorf("list of %q at %d is not in order: %q", w.prefix, w.revision, w.keys)
	}
	read := 0
	for i, left := range w.left {
		if read += w.sizes[i]; left != int64(len(want)-read) {
			t.Errorf("list of %q at %d: %d remain after %d of %d", w.prefix, w.revision, left, read, len(want))
		}
	}
}

// TestPagesAreOneList lists in pages of random sizes, from random replicas, while others write: together they are the
// list at the first page's revision, without gaps or duplicates.
func TestPagesAreOneList(t *testing.T) {
	const writers, readers, lists = 2, 2, 25
	onEach(t, func(t *testing.T, all []*replica) {
		var h history
		seeded := rand.New(rand.NewPCG(1, 2))
		for range 300 {
			h.change(t, seeded, all[0])
		}
		stop := make(chan struct{})
		var reading, writing sync.WaitGroup
		for i := range writers {
			random := rand.New(rand.NewPCG(3, uint64(i)))
			writing.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						h.change(t, random, all[random.IntN(len(all))])
					}
				}
			})
		}
		results := make([][]whole, readers)
		for i := range results {
			random := rand.New(rand.NewPCG(4, uint64(i)))
			reading.Go(func() {
				for range lists {
					o := []ListOptions{{}, {ResourceVersion: "0"}, {ResourceVersion: "200"}, {
						ResourceVersion:      "150",
						ResourceVersionMatch: "NotOlderThan",
					}}[random.IntN(4)]
					results[i] = append(results[i], pages(t, random, all, o))
				}
			})
		}
		reading.Wait()
		close(stop)
		writing.Wait()
		several := 0
		for _, w := range slices.Concat(results...) {
			if h.check(t, w); len(w.sizes) > 1 {
				several++
			}
		}
		if several < lists/2 {
			t.Errorf("%d lists had several pages", several)
		}
	})
}

// TestPagesAcrossReopening continues, after a restart, with older tokens.
func TestPagesAcrossReopening(t *testing.T) {
	onEach(t, func(t *testing.T, all []*replica) {
		var h history
		random := rand.New(rand.NewPCG(5, 6))
		for range 200 {
			h.change(t, random, all[random.IntN(len(all))])
		}
		w := whole{}
		o := ListOptions{Limit: 20}
		for {
			rows, page := mustList(t, all[0], w.prefix, o)
			w.revision = page.Revision
			w.add(rows, page)
			if page.Continue == "" {
				break
			}
			o.Continue = page.Continue
			for range 10 {
				h.change(t, random, all[len(all)-1])
			}
			all[0] = all[0].reopen(t)
		}
		if h.check(t, w); len(w.sizes) < 3 {
			t.Errorf("only %d pages", len(w.sizes))
		}
	})
}

// TestChunksAreBounded lists everything without a limit: the list comes in chunks, with each key once.
func TestChunksAreBounded(t *testing.T) {
	onEach(t, func(t *testing.T, all []*replica) {
		const n = 5000
		for i := 0; i < n; i += 100 {
			txn := &store.Txn{}
			for j := range 100 {
				txn.Success = append(txn.Success, store.Op{Put: &store.PutRequest{
					Key:   fmt.Appendf(nil, "/p/%05d", i+j),
					Value: make([]byte, 100),
				}})
			}
			if _, err := all[0].Txn(within(t), txn); err != nil {
				t.Fatal(err)
			}
		}
		for _, limit := range []int64{0, n, n + 1, 1 << 62} {
			chunks, most, rows := 0, 0, 0
			page, err := all[len(all)-1].pager.List(within(t), []byte("/p/"), ListOptions{Limit: limit},
				func(chunk []*store.Row) error {
					chunks, most, rows = chunks+1, max(most, len(chunk)), rows+len(chunk)
					return nil
				})
			if err != nil || rows != n || page.Continue != "" || page.Remaining != 0 {
				t.Errorf("limit %d: %d rows, %+v, %v", limit, rows, page, err)
			}
			if most > 1000 || chunks < 5 {
				t.Errorf("limit %d: %d chunks of up to %d rows", limit, chunks, most)
			}
		}
	})
}
