package history

import "testing"

// A history that is read in parts, with compacted rows before its beginning, is the same as one that is read at once.
func TestRecorded(t *testing.T) {
	type row struct {
		Event
		ordinal, previous int64
	}
	put := func(key string, rev, ordinal, previous int64) row {
		return row{Event{Key: key, Value: "v", Revision: rev}, ordinal, previous}
	}
	gone := func(key string, rev, ordinal, previous int64) row {
		return row{Event{Key: key, Deleted: true, Revision: rev}, ordinal, previous}
	}
	// Version 2 of a is compacted, and so is the first row of revision 4. The run begins after 5.
	right := []row{
		put("b", 4, 1, 0), put("a", 5, 0, 2),
		put("a", 6, 0, 5), put("b", 6, 1, 4), gone("a", 7, 0, 6), put("a", 8, 0, 0),
	}
	add := func(rows []row) (r *Recorded, err error) {
		r = NewRecorded(5)
		for _, e := range rows {
			err = r.Add(e.Event, e.ordinal, e.previous)
		}
		return r, err
	}
	r, err := add(right)
	if err != nil || r.To != 8 || len(r.Base) != 2 || len(r.Events) != 4 {
		t.Fatalf("%+v, %v", r, err)
	}
	for name, wrong := range map[string][]row{
		"a row is missing":              {right[0], right[1], right[3], right[4], right[5]},
		"another previous version":      {right[0], right[1], put("a", 6, 0, 2), right[3]},
		"a deletion's previous version": {right[0], right[1], right[2], right[3], gone("a", 7, 0, 5), right[5]},
		"a deletion is missing":         {right[0], right[1], right[2], right[3], right[5]},
		"the second half of a revision": {right[0], right[1], put("b", 6, 1, 4)},
	} {
		if _, err := add(append(wrong, put("c", 9, 0, 0))); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
