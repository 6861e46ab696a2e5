package store

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// model is the reference for the engine: the simplest code that gives the same answers. It keeps every row ever written
// in one list and derives everything else from that list.
type model struct {
	rev, compacted int64
	rows           []Row // in the order in which they were written
	leases         map[int64]bool
}

func newModel() *model { return &model{rev: 1, leases: map[int64]bool{}} }

// state holds the live rows at one revision. Evaluating a transaction changes it.
type state map[string]Row

func (m *model) at(rev int64) state {
	s := state{}
	for _, r := range m.rows {
		if r.ModRevision <= rev {
			s.put(r)
		}
	}
	return s
}

func (s state) put(r Row) {
	if r.Deleted {
		delete(s, string(r.Key))
		return
	}
	s[string(r.Key)] = r
}

// in returns the rows of [key, end) in key order.
func (s state) in(key, end []byte) (rows []Row) {
	for _, r := range s {
		if inRange(r.Key, key, end) {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b Row) int { return bytes.Compare(a.Key, b.Key) })
	return rows
}

// inRange follows etcd's convention for (key, range_end). The engine implements it in a different way.
func inRange(k, key, end []byte) bool {
	switch {
	case len(end) == 0:
		return bytes.Equal(k, key)
	case string(end) == "\x00":
		return bytes.Compare(k, key) >= 0
	}
	return bytes.Compare(k, key) >= 0 && bytes.Compare(k, end) < 0
}

func (m *model) readable(rev int64) error {
	switch {
	case rev <= 0:
		return nil
	case rev > m.rev:
		return ErrFutureRevision
	case rev < m.compacted:
		return ErrCompacted
	}
	return nil
}

func (m *model) rangeAt(r *RangeRequest) (*RangeResult, error) {
	if err := m.readable(r.Revision); err != nil {
		return nil, err
	}
	rev := m.rev
	if r.Revision > 0 {
		rev = r.Revision
	}
	return m.at(rev).rangeOf(r, m.rev), nil
}

func (s state) rangeOf(r *RangeRequest, header int64) *RangeResult {
	rows := s.in(r.Key, r.End)
	res := &RangeResult{Count: int64(len(rows)), Revision: header}
	if r.CountOnly {
		return res
	}
	rows = slices.DeleteFunc(rows, func(x Row) bool {
		return r.MinModRev != 0 && x.ModRevision < r.MinModRev || r.MaxModRev != 0 && x.ModRevision > r.MaxModRev ||
			r.MinCreateRev != 0 && x.CreateRevision < r.MinCreateRev ||
			r.MaxCreateRev != 0 && x.CreateRevision > r.MaxCreateRev
	})
	filtered := r.MinModRev != 0 || r.MaxModRev != 0 || r.MinCreateRev != 0 || r.MaxCreateRev != 0
	if r.Order == SortNone && !filtered && r.Limit > 0 && int64(len(rows))-1 > r.Limit {
		rows = rows[:r.Limit+1] // without an order, etcd applies the limit before it sorts
	}
	slices.SortStableFunc(rows, func(a, b Row) int {
		c := map[SortTarget]int{
			SortKey: bytes.Compare(a.Key, b.Key), SortVersion: cmp.Compare(a.Version, b.Version),
			SortCreate: cmp.Compare(a.CreateRevision, b.CreateRevision),
			SortMod:    cmp.Compare(a.ModRevision, b.ModRevision),
			SortValue:  bytes.Compare(a.Value, b.Value),
		}[r.Target]
		if r.Order == SortDescend {
			return -c
		}
		return c
	})
	if r.Limit > 0 && int64(len(rows)) > r.Limit {
		rows, res.More = rows[:r.Limit], true
	}
	for _, x := range rows {
		if r.KeysOnly {
			x.Value = nil
			if r.Target != SortValue {
				x.Lease = 0
			}
		}
		res.Rows = append(res.Rows, &x)
	}
	return res
}

// attempt is a transaction in progress: the model keeps none of it if it fails.
type attempt struct {
	m     *model
	state state
	rows  []Row
}

// txn runs a transaction and keeps its changes if it succeeds.
func (m *model) txn(t *Txn) (*TxnResult, error) {
	a := &attempt{m: m, state: m.at(m.rev)}
	var path []bool
	a.compare(t, &path)
	rest := path
	if err := a.check(t, &rest); err != nil {
		return nil, err
	}
	rest = path
	res, err := a.apply(t, &rest)
	if err != nil {
		return nil, err
	}
	res.Revision = a.rev()
	m.rows = append(m.rows, a.rows...)
	m.rev = res.Revision
	return res, nil
}

func (a *attempt) rev() int64 {
	if len(a.rows) > 0 {
		return a.m.rev + 1
	}
	return a.m.rev
}

func (a *attempt) write(r Row) {
	r.ModRevision = a.m.rev + 1
	a.rows = append(a.rows, r)
	a.state.put(r)
}

func (a *attempt) compare(t *Txn, path *[]bool) {
	ok := true
	for _, c := range t.Compare {
		rows := a.state.in(c.Key, c.End)
		if len(rows) == 0 {
			if c.Target == CompareValue {
				ok = false
			}
			rows = []Row{{}}
		}
		for _, r := range rows {
			order := map[CompareTarget]int{
				CompareVersion: cmp.Compare(r.Version, c.Number),
				CompareCreate:  cmp.Compare(r.CreateRevision, c.Number),
				CompareMod:     cmp.Compare(r.ModRevision, c.Number), CompareValue: bytes.Compare(r.Value, c.Value),
				CompareLease: cmp.Compare(r.Lease, c.Number),
			}[c.Target]
			ok = ok && map[CompareResult]bool{
				CompareEqual: order == 0, CompareGreater: order > 0, CompareLess: order < 0,
				CompareNotEqual: order != 0,
			}[c.Result]
		}
	}
	*path = append(*path, ok)
	for _, op := range pick(t, ok) {
		if op.Txn != nil {
			a.compare(op.Txn, path)
		}
	}
}

func pick(t *Txn, ok bool) []Op {
	if ok {
		return t.Success
	}
	return t.Failure
}

func shift(path *[]bool) bool {
	ok := (*path)[0]
	*path = (*path)[1:]
	return ok
}

func (a *attempt) check(t *Txn, path *[]bool) error {
	for _, op := range pick(t, shift(path)) {
		switch {
		case op.Range != nil:
			if err := a.m.readable(op.Range.Revision); err != nil {
				return err
			}
		case op.Put != nil:
			if op.Put.Lease != 0 && !op.Put.IgnoreLease && !a.m.leases[op.Put.Lease] {
				return ErrLeaseNotFound
			}
			if _, ok := a.state[string(op.Put.Key)]; !ok && (op.Put.IgnoreValue || op.Put.IgnoreLease) {
				return ErrKeyNotFound
			}
		case op.Txn != nil:
			if err := a.check(op.Txn, path); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *attempt) apply(t *Txn, path *[]bool) (*TxnResult, error) {
	res := &TxnResult{Succeeded: shift(path)}
	for _, op := range pick(t, res.Succeeded) {
		var out OpResult
		var err error
		switch {
		case op.Range != nil && op.Range.Revision > 0:
			out.Range = a.m.at(op.Range.Revision).rangeOf(op.Range, a.rev())
		case op.Range != nil:
			out.Range = a.state.rangeOf(op.Range, a.rev())
		case op.Put != nil:
			out.Put, err = a.put(op.Put)
		case op.Delete != nil:
			out.Delete = a.delete(op.Delete)
		case op.Txn != nil:
			out.Txn, err = a.apply(op.Txn, path)
		}
		if err != nil {
			return nil, err
		}
		res.Results = append(res.Results, out)
	}
	return res, nil
}

func (a *attempt) put(p *PutRequest) (*PutResult, error) {
	r := Row{Key: p.Key, Value: p.Value, Lease: p.Lease, Version: 1, CreateRevision: a.m.rev + 1}
	res := &PutResult{Revision: a.m.rev + 1}
	old, ok := a.state[string(p.Key)]
	if !ok && (p.IgnoreValue || p.IgnoreLease) {
		return nil, ErrKeyNotFound
	}
	if ok {
		r.Version, r.CreateRevision = old.Version+1, old.CreateRevision
		if p.IgnoreValue {
			r.Value = old.Value
		}
		if p.IgnoreLease {
			r.Lease = old.Lease
		}
		if p.PrevKV {
			res.Prev = &old
		}
	}
	a.write(r)
	return res, nil
}

func (a *attempt) delete(d *DeleteRequest) *DeleteResult {
	res := &DeleteResult{}
	for _, r := range a.state.in(d.Key, d.End) {
		res.Deleted++
		if d.PrevKV {
			res.Prev = append(res.Prev, &r)
		}
		a.write(Row{Key: r.Key, Deleted: true})
	}
	res.Revision = a.rev()
	return res
}

func (m *model) leaseKeys(id int64) (keys []string) {
	for key, r := range m.at(m.rev) {
		if r.Lease == id {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func (m *model) revoke(id int64) error {
	if !m.leases[id] {
		return ErrLeaseNotFound
	}
	keys := m.leaseKeys(id)
	for _, key := range keys {
		m.rows = append(m.rows, Row{Key: []byte(key), Deleted: true, ModRevision: m.rev + 1})
	}
	if len(keys) > 0 {
		m.rev++
	}
	delete(m.leases, id)
	return nil
}

func (m *model) compact(rev int64) error {
	switch {
	case rev <= m.compacted:
		return ErrCompacted
	case rev > m.rev:
		return ErrFutureRevision
	}
	m.compacted = rev
	return nil
}

// events returns the events that a watch from a revision on must show.
func (m *model) events(w *WatchRequest, from int64) (events []Event) {
	for _, r := range m.rows {
		if !shown(&r, w, from) {
			continue
		}
		e := Event{Row: &r}
		if prev, ok := m.at(r.ModRevision - 1)[string(r.Key)]; ok && w.PrevKV && r.CreateRevision != r.ModRevision {
			e.Prev = &prev
		}
		events = append(events, e)
	}
	return events
}

// countEvents counts the events that a watch from a revision on must show.
func (m *model) countEvents(w *WatchRequest, from int64) (n int) {
	for i := range m.rows {
		if shown(&m.rows[i], w, from) {
			n++
		}
	}
	return n
}

// shown reports whether a watch from a revision on must show a row.
func shown(r *Row, w *WatchRequest, from int64) bool {
	kind := !r.Deleted && !w.NoPut || r.Deleted && !w.NoDelete
	return r.ModRevision >= from && kind && inRange(r.Key, w.Key, w.End)
}

// Tests compare answers by the texts below, which render nil and empty alike, as on the wire.

func rowText(r *Row) string {
	switch {
	case r == nil:
		return "-"
	case r.Deleted:
		return fmt.Sprintf("%q@%d gone", r.Key, r.ModRevision)
	}
	return fmt.Sprintf("%q=%q@%d from %d, version %d, lease %d", r.Key, r.Value, r.ModRevision, r.CreateRevision,
		r.Version, r.Lease)
}

func rowsText(rows []*Row) string {
	parts := make([]string, len(rows))
	for i, r := range rows {
		parts[i] = rowText(r)
	}
	return "[" + strings.Join(parts, "; ") + "]"
}

func rangeText(r *RangeResult, err error) string {
	if err != nil {
		return errorText(err)
	}
	return fmt.Sprintf("range %s more=%v count=%d rev=%d", rowsText(r.Rows), r.More, r.Count, r.Revision)
}

func txnText(r *TxnResult, err error) string {
	if err != nil {
		return errorText(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "txn %v rev=%d {", r.Succeeded, r.Revision)
	for _, o := range r.Results {
		switch {
		case o.Range != nil:
			b.WriteString(rangeText(o.Range, nil))
		case o.Put != nil:
			fmt.Fprintf(&b, "put prev=%s rev=%d", rowText(o.Put.Prev), o.Put.Revision)
		case o.Delete != nil:
			fmt.Fprintf(&b, "delete %d prev=%s rev=%d", o.Delete.Deleted, rowsText(o.Delete.Prev), o.Delete.Revision)
		case o.Txn != nil:
			b.WriteString(txnText(o.Txn, nil))
		}
		b.WriteString(" | ")
	}
	return b.String() + "}"
}

func eventText(e Event) string { return rowText(e.Row) + " was " + rowText(e.Prev) }

func errorText(err error) string {
	for _, known := range []error{ErrCompacted, ErrFutureRevision, ErrKeyNotFound, ErrLeaseNotFound, ErrLeaseExists} {
		if errors.Is(err, known) {
			return "error: " + known.Error()
		}
	}
	if err != nil {
		return "unexpected error: " + err.Error()
	}
	return "ok"
}
