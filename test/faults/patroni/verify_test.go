package patroni

import (
	"context"
	"fmt"
	"slices"

	"github.com/sqlstore/sqlstore/test/faults/patroni/rig"
)

// verify ends the writes and compares the clients' answers, the database's rows, and what the watches saw.
func (l *load) verify(c *cluster) {
	l.Helper()
	l.writing.stop()
	history := c.history(l.from)
	if len(history) == 0 {
		l.Fatal("the database has none of the writes")
	}
	acknowledged := 0
	for _, p := range l.puts {
		if p.revision != 0 {
			acknowledged++
		}
	}
	if err := compare(l.from, l.puts, history); err != nil {
		l.Error(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	for _, w := range l.watches {
		events, reopened, err := w.through(ctx, history[len(history)-1].revision)
		if err == nil {
			err = same(events, history)
		}
		if err != nil {
			l.Errorf("watch of %s: %v", w.of, err)
		}
		l.Logf("the watch of %s saw %d events and was opened again %d times", w.of, len(events), reopened)
	}
	l.Logf("%d writes, %d of them acknowledged, %d in the database", len(l.puts), acknowledged, len(history))
}

// history reads the rows above a revision.
func (c *cluster) history(from int64) (history []event) {
	c.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), rig.StateTimeout)
	defer cancel()
	conn := c.Connect(ctx, "sqlstore")
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, "SELECT resource_version, key, value FROM object_versions WHERE resource_version > "+
		"$1 ORDER BY resource_version, ordinal", from)
	if err != nil {
		c.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var e event
		var key, value []byte
		if err := rows.Scan(&e.revision, &key, &value); err != nil {
			c.Fatal(err)
		}
		e.key, e.value = string(key), string(value)
		history = append(history, e)
	}
	if err := rows.Err(); err != nil {
		c.Fatal(err)
	}
	return history
}

// compare reports whether every acknowledged write is in the history once, at its revision, and nothing else is. Only
// the load writes: one write is one revision.
func compare(from int64, puts []put, history []event) error {
	written := map[string]*put{}
	for i := range puts {
		written[puts[i].value] = &puts[i]
	}
	at := map[string]int64{}
	for i, e := range history {
		p := written[e.value]
		switch {
		case e.revision != from+1+int64(i):
			return fmt.Errorf("revision %d is followed by %d", from+int64(i), e.revision)
		case p == nil || p.key != e.key:
			return fmt.Errorf("no client wrote %+v", e)
		case at[e.value] != 0:
			return fmt.Errorf("the write of %s appears twice, at revisions %d and %d", e.value, at[e.value],
				e.revision)
		case p.revision != 0 && p.revision != e.revision:
			return fmt.Errorf("the write of %s was acknowledged at revision %d and is at %d", e.value, p.revision,
				e.revision)
		}
		at[e.value] = e.revision
	}
	for _, p := range puts {
		if p.revision != 0 && at[p.value] == 0 {
			return fmt.Errorf("the write of %s was acknowledged at revision %d and is lost", p.value, p.revision)
		}
	}
	return nil
}

// same checks that a watch saw all of the history, once and in order.
func same(events, history []event) error {
	for i := range min(len(events), len(history)) {
		if events[i] != history[i] {
			return fmt.Errorf("event %d is %+v, the database has %+v", i, events[i], history[i])
		}
	}
	if !slices.Equal(events, history) {
		return fmt.Errorf("%d events, the database has %d", len(events), len(history))
	}
	return nil
}
