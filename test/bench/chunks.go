package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"text/tabwriter"
	"time"
)

// The cost of a chunk of a list by its position, the number of objects, and the API. All chunks come from one walk at
// one revision, from the first page to the last, after an update inside the list, so that nothing from an earlier walk
// can be reused.
//
// etcd and kine are left out: they count everything after each page, so that one walk through 1,000,000 objects takes
// minutes.

// place is a part of a walk.
type place string

const (
	firstPage  place = "first"  // which also counts the list
	beginning  place = "begin"  // a tenth of the pages, after the first one
	middle     place = "middle" // a tenth around the middle
	end        place = "end"    // the last tenth
	overGRPC         = "chunk"
	overHTTP         = "chunk-http"
	shareOfAll       = 10
)

var places = []place{firstPage, beginning, middle, end}

// pagesAt returns the first page of a place and the one after its last, out of pages.
func (p place) pagesAt(pages int) (from, to int) {
	share := max(1, pages/shareOfAll)
	switch p {
	case firstPage:
		return 0, min(1, pages)
	case beginning:
		return min(1, pages-1), min(1+share, pages)
	case middle:
		return pages/2 - share/2, pages/2 - share/2 + share
	default:
		return pages - share, pages
	}
}

// chunkPhases has a phase for each place and API.
func (c *config) chunkPhases() []*phase {
	var all []*phase
	for _, api := range []string{overGRPC, overHTTP} {
		for _, p := range places {
			all = append(all, &phase{
				name: api + "-" + string(p),
				skip: func(t *target) bool { return !t.walksFast() || api == overHTTP && !t.hasObjects },
				run:  func(ctx context.Context, t *target) (*outcome, error) { return t.chunksAt(ctx, api, p) },
			})
		}
	}
	return all
}

// walksFast reports whether a page's cost does not grow with the list after it.
func (t *target) walksFast() bool { return t.program == nil }

// chunksAt returns the cost of the pages of a place in a walk, which is reported once per place.
func (t *target) chunksAt(ctx context.Context, api string, p place) (*outcome, error) {
	if t.walked == nil {
		t.walked = map[string]map[place]*outcome{}
		// Not measured: it brings the values into memory, as far as they fit, and later walks of a short list profit
		// from that.
		if _, err := t.walkAll(ctx, api, 0); err != nil {
			return nil, err
		}
	}
	if t.walked[api][p] == nil {
		found, err := t.walkAll(ctx, api, t.c.span)
		if err != nil {
			return nil, err
		}
		t.walked[api] = found
	}
	out := t.walked[api][p]
	delete(t.walked[api], p)
	return out, nil
}

// walkAll walks the whole list, repeatedly until the time is over, and adds up each place's pages.
func (t *target) walkAll(ctx context.Context, api string, span time.Duration) (map[place]*outcome, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, span+time.Hour, errHangs)
	defer cancel()
	found := map[place]*outcome{}
	for _, p := range places {
		found[p] = &outcome{}
	}
	pages := (len(t.objects) + pageSize - 1) / pageSize
	for end := time.Now().Add(span); ; {
		if _, err := t.newUpdates().one(ctx, rand.IntN(min(t.c.clients, len(t.objects)))); err != nil {
			return nil, err
		}
		next := t.walker(api, pages)
		for page := range pages {
			before, err := t.used()
			if err != nil {
				return nil, err
			}
			took, err := next(ctx, page)
			if err != nil {
				return nil, err
			}
			after, err := t.used()
			if err != nil {
				return nil, err
			}
			for _, p := range places {
				if from, to := p.pagesAt(pages); page >= from && page < to {
					found[p].add(took, after.since(before))
				}
			}
		}
		if time.Now().After(end) {
			return found, nil
		}
	}
}

// add counts an operation that was measured separately.
func (o *outcome) add(took time.Duration, used usage) {
	o.ops++
	o.wall += took
	o.latency = append(o.latency, took)
	o.used = o.used.plus(used)
}

// walker returns a function that reads the next page of a new walk and returns its duration.
func (t *target) walker(api string, pages int) func(ctx context.Context, page int) (time.Duration, error) {
	if api == overHTTP {
		return t.newHTTPWalk().next
	}
	w := t.newWalk()
	w.pages = pages
	return func(ctx context.Context, page int) (time.Duration, error) {
		start := time.Now()
		err := w.next(ctx, page)
		return time.Since(start), err
	}
}

// printChunks shows CPU and latency of a chunk by its place and by the number of objects.
func printChunks(out io.Writer, c *config, r results) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	head := "\nCPU (p50) of a page\tserver\tobjects\tfirst\tbegin\tmiddle\tend\tend / begin\tmiddle, to the " +
		"smallest size\t\n"
	for _, api := range []string{overGRPC, overHTTP} {
		for _, s := range c.servers {
			var smallest float64
			for _, n := range c.sizes {
				row := fmt.Sprintf("%s\t%s\t%d\t", api, s.name, n)
				cpu := map[place]float64{}
				for _, p := range places {
					of := slices.DeleteFunc(r.of(api+"-"+string(p), s.name), func(s slice) bool {
						return s.Objects != n
					})
					if len(of) == 0 {
						break
					}
					cost := medianOf(of, cpuPerOp) + time.Duration(medianOf(of, databasePerOp))
					cpu[p] = float64(cost)
					row += fmt.Sprintf("%s (%s)\t", duration(cost), duration(medianOf(of, half)))
				}
				if len(cpu) < len(places) {
					continue
				}
				if smallest == 0 {
					smallest = cpu[middle]
				}
				fmt.Fprintf(w, "%s%s%.2f\t%.2f\t\n", head, row, cpu[end]/cpu[beginning], cpu[middle]/smallest)
				head = ""
			}
		}
	}
	_ = w.Flush()
}
