package store

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/sqlstore/sqlstore/internal/store/index"
)

// satisfied reports whether one compare is true for every key of its range.
func (e *evaluator) satisfied(c *Compare) (bool, error) {
	items, err := e.scan(c.Key, c.End)
	if err != nil {
		return false, err
	}
	if len(items) == 0 {
		if c.Target == CompareValue {
			return false, nil // even for not-equal: there is no value to compare with
		}
		return c.result(c.against(&Row{})), nil
	}
	if c.Target == CompareValue {
		return e.satisfiedValues(c, items)
	}
	for _, it := range items {
		if !c.result(c.against(&it.Row)) {
			return false, nil
		}
	}
	return true, nil
}

// satisfiedValues is satisfied for the values of the items, of which it reads no more than it compares at a time.
func (e *evaluator) satisfiedValues(c *Compare, items []*index.Item) (bool, error) {
	r := reservationOf(e.ctx)
	before := r.counted()
	for n := 0; len(items) > 0; n++ {
		if err := e.abandoned(n); err != nil {
			return false, err
		}
		part := items[:min(len(items), heldRows)]
		rows, err := e.s.firstRows(e.ctx, part, e.epoch, &RangeRequest{}, heldBytes)
		if err != nil {
			return false, err
		}
		differs := slices.ContainsFunc(rows, func(row *Row) bool { return !c.result(c.against(row)) })
		if r.recount(before); differs {
			return false, nil
		}
		items = items[len(rows):]
	}
	return true, nil
}

// against compares the row's field with the given number or value.
func (c *Compare) against(r *Row) int {
	switch c.Target {
	case CompareVersion:
		return cmp.Compare(r.Version, c.Number)
	case CompareCreate:
		return cmp.Compare(r.CreateRevision, c.Number)
	case CompareMod:
		return cmp.Compare(r.ModRevision, c.Number)
	case CompareValue:
		return bytes.Compare(r.Value, c.Value)
	case CompareLease:
		return cmp.Compare(r.Lease, c.Number)
	default:
		return 0
	}
}

// result reports whether the outcome of a comparison, order, satisfies the relation asked for. An unknown relation
// always holds.
func (c *Compare) result(order int) bool {
	switch c.Result {
	case CompareEqual:
		return order == 0
	case CompareNotEqual:
		return order != 0
	case CompareGreater:
		return order > 0
	case CompareLess:
		return order < 0
	default:
		return true
	}
}
