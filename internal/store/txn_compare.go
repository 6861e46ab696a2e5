package store

import (
	"bytes"
	"cmp"
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
	var rows []*Row
	if c.Target == CompareValue {
		if rows, err = e.values(items); err != nil {
			return false, err
		}
	}
	for i, it := range items {
		row := &it.Row
		if rows != nil {
			row = rows[i]
		}
		if !c.result(c.against(row)) {
			return false, nil
		}
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
