package putback

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/sqlstore/sqlstore/backend"
)

// Saved is a [Past] that was read from a backup. It keeps keys in memory, and values in a temporary file. Close it.
type Saved struct {
	values *values
	rows   []savedRow
}

type savedRow struct {
	backend.Row // without its value

	place place
}

var _ Past = (*Saved)(nil)

// Save reads a source that has one row for each key. Errors: those of the source, and of the file.
func Save(ctx context.Context, from backend.Source) (s *Saved, err error) {
	s = &Saved{}
	if s.values, err = newValues(); err != nil {
		return nil, err
	}
	err = from.Rows(ctx, func(r *backend.Row) error {
		place, err := s.values.add(r.Value)
		row := savedRow{*r, place}
		row.Key, row.Value = bytes.Clone(r.Key), nil
		s.rows = append(s.rows, row)
		return err
	})
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	slices.SortFunc(s.rows, func(a, b savedRow) int { return bytes.Compare(a.Key, b.Key) })
	return s, nil
}

// Close removes the file.
func (s *Saved) Close() error { return s.values.close() }

// find returns the index of the first key that is not below one.
func (s *Saved) find(key []byte) (int, bool) {
	return slices.BinarySearchFunc(s.rows, key, func(r savedRow, key []byte) int { return bytes.Compare(r.Key, key) })
}

// Keys implements [Past].
func (s *Saved) Keys(_ context.Context, span backend.Span, f func(*backend.Row) bool) error {
	i, _ := s.find(span.Start)
	for ; i < len(s.rows) && span.Contains(s.rows[i].Key) && f(&s.rows[i].Row); i++ {
	}
	return nil
}

// Rows implements [Past].
func (s *Saved) Rows(_ context.Context, keys []string) ([]*backend.Row, error) {
	rows := make([]*backend.Row, len(keys))
	for n, key := range keys {
		i, ok := s.find([]byte(key))
		if !ok {
			continue
		}
		row := s.rows[i].Row
		value, err := s.values.get(s.rows[i].place)
		if err != nil {
			return nil, fmt.Errorf("read the old value of %q: %w", key, err)
		}
		row.Value, rows[n] = value, &row
	}
	return rows, nil
}
