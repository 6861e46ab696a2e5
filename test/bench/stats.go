package main

import (
	"slices"
	"time"
)

type number interface{ ~int64 | ~float64 }

// median returns the median of the values, which it does not reorder; 0 if there are none.
func median[T number](values []T) T {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// spread is the median of some ratios with their minimum and maximum.
type spread struct{ mid, low, high float64 }

func spreadOf(v []float64) (s spread, ok bool) {
	if len(v) == 0 {
		return s, false
	}
	return spread{median(v), slices.Min(v), slices.Max(v)}, true
}

// results are all slices of one size.
type results []slice

// of returns the slices of a phase on a server in the order of the pairs.
func (r results) of(phase, server string) (out results) {
	for _, s := range r {
		if s.Phase == phase && s.Server == server && s.Ops > 0 {
			out = append(out, s)
		}
	}
	return out
}

// medianOf is the median of a figure of the slices.
func medianOf[T number](r results, figure func(slice) T) T {
	v := make([]T, len(r))
	for i, s := range r {
		v[i] = figure(s)
	}
	return median(v)
}

func throughput(s slice) float64     { return float64(s.Ops) / s.Wall.Seconds() }
func cpuPerOp(s slice) time.Duration { return s.CPU / time.Duration(s.Ops) }
func peak(s slice) int64             { return s.Memory.Peak }
func anonymous(s slice) int64        { return s.Memory.Anon }
func half(s slice) time.Duration     { return s.P50 }
func slowest(s slice) time.Duration  { return s.P99 }
func perOp(s slice) float64          { return float64(s.CPU) / float64(s.Ops) }
func databasePerOp(s slice) float64  { return float64(s.Database) / float64(s.Ops) }
func clientCost(s slice) float64     { return float64(s.ClientCPU) / float64(s.Ops) }
func otherShare(s slice) float64     { return float64(s.OtherCPU) / float64(s.Wall) }

// ratio compares a figure of two servers pair by pair.
func (r results) ratio(phase, server, to string, figure func(slice) float64) (spread, bool) {
	return r.compare(phase, server, to, "", figure)
}

// above compares the CPU above the bare call.
func (r results) above(phase, server, to string) (spread, bool) {
	return r.compare(phase, server, to, "bare", perOp)
}

func (r results) compare(phase, server, to, floor string, figure func(slice) float64) (spread, bool) {
	a, b, z := r.byPair(phase, server), r.byPair(phase, to), r.byPair(phase, floor)
	var v []float64
	for pair, x := range a {
		y, ok := b[pair]
		if !ok {
			continue
		}
		var less float64
		if floor != "" {
			f, ok := z[pair]
			if !ok {
				continue
			}
			less = figure(f)
		}
		if d := figure(y) - less; d > 0 {
			v = append(v, (figure(x)-less)/d)
		}
	}
	return spreadOf(v)
}

func (r results) byPair(phase, server string) map[int]slice {
	m := map[int]slice{}
	for _, s := range r.of(phase, server) {
		m[s.Pair] = s
	}
	return m
}
