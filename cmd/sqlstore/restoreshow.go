package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/changes"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/kubeobject"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/putback"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/show"
)

// kept is what happens to a key that did not exist then.
const kept = "kept"

// tableRows is how many rows of a table are aligned, and in memory, together.
const tableRows = 500

// restored is a key that differs from what it was, and what happens to it.
type restored struct {
	keyed          `json:",inline"`
	ThenRevision   int64 `json:"thenRevision,omitempty"`
	NowRevision    int64 `json:"nowRevision,omitempty"`
	changes.Change `json:",inline"`
	Lease          string   `json:"lease,omitempty"` // that it gets
	Warnings       []string `json:"warnings,omitempty"`
}

// describeRestored says what a key's old version changes.
func describeRestored(d *putback.Difference) restored {
	r := restored{keyed: keyOf(d.Key)}
	if d.Now != nil {
		r.NowRevision = d.Now.ModRevision
	}
	if d.Then == nil {
		r.Change = changes.Describe(&backend.Row{Deleted: true}, d.Now)
		return r
	}
	row := *d.Then
	row.Lease, row.Version = d.Lease, 2 // it is compared with the present one, whatever its own version was
	if d.Now == nil {
		row.Version = 1
	}
	r.ThenRevision, r.Change = row.ModRevision, changes.Describe(&row, d.Now)
	if d.Lease != 0 {
		r.Lease = show.Lease(d.Lease)
	}
	switch {
	case d.Ended != 0 && d.Lease != 0:
		r.Warnings = append(r.Warnings, "keeps its present lease, because "+show.Lease(d.Ended)+" has ended")
	case d.Ended != 0:
		r.Warnings = append(r.Warnings, "without its lease "+show.Lease(d.Ended)+", which has ended")
	}
	if metadata := metadataOf(d.Then); metadata["deletionTimestamp"] != nil {
		r.Warnings = append(r.Warnings, "was already being deleted then")
	}
	return r
}

// metadataOf returns the metadata of an object, nil if the value is none.
func metadataOf(row *backend.Row) map[string]any {
	metadata, _ := kubeobject.Decode(row.Value, row.ModRevision).Fields["metadata"].(map[string]any)
	return metadata
}

func (r *restored) line() string {
	text := strings.Join(append([]string{r.Line()}, r.Warnings...), "; ")
	switch r.Action {
	case kept:
		return "kept: did not exist then"
	case changes.Created:
		return strings.Replace(text, changes.Created, "created again", 1)
	}
	return text
}

// line prints a key, or keeps it until there are more.
func (r *restoration) line(x restored, d *putback.Difference) error {
	if r.form == "table" && r.full {
		if err := r.heading(); err != nil {
			return err
		}
		text := ""
		if x.Action != kept {
			name := show.Key(d.Key)
			text = changes.Unified(fmt.Sprintf("%s (revision %d)", name, r.now), fmt.Sprintf("%s (%s)", name,
				r.then), textOf(d.Now), textOf(d.Then))
		}
		if text == "" || len(x.Warnings) > 0 {
			text += show.Key(d.Key) + ": " + x.line() + "\n"
		}
		_, err := io.WriteString(r.out, text)
		return err
	}
	r.shown = append(r.shown, x)
	if r.form == "table" && len(r.shown) >= tableRows {
		return r.table()
	}
	return nil
}

// heading says what is compared.
func (r *restoration) heading() error {
	if r.printed {
		return nil
	}
	r.printed = true
	committed := ""
	if r.then.time != nil {
		committed = ", committed " + showTime(r.then.time)
	}
	_, err := fmt.Fprintf(r.out, "back from revision %d to %s%s\n\n", r.now, r.then, committed)
	return err
}

// table prints the rows that are waiting.
func (r *restoration) table() error {
	if len(r.shown) == 0 {
		return nil
	}
	if err := r.heading(); err != nil {
		return err
	}
	rows := [][]string{{"NOW", "THEN", "KEY", "CHANGE"}}
	for i := range r.shown {
		x := &r.shown[i]
		rows = append(rows, []string{orNone(x.NowRevision), orNone(x.ThenRevision), show.Key(x.Key), cell(x.line())})
	}
	r.shown = r.shown[:0]
	return columns(r.out, rows)
}

// show prints what is not printed yet, and the numbers.
func (r *restoration) show() error {
	if r.form != "table" {
		data := map[string]any{
			"revision": r.then.revision, "currentRevision": r.now, "keys": append([]restored{}, r.shown...),
			"counts": r.counts,
		}
		if r.then.time != nil {
			data["time"] = r.then.time
		}
		if r.then.chain != "" {
			data["chain"] = r.then.chain
		}
		return encode(r.out, r.form, data)
	}
	some := r.printed || len(r.shown) > 0
	if err := errors.Join(r.table(), r.heading()); err != nil {
		return err
	}
	if some {
		_, _ = fmt.Fprintln(r.out)
	}
	_, err := fmt.Fprintln(r.out, r.counts.text())
	return err
}

// text returns the numbers in words.
func (n *restoredCounts) text() string {
	var parts []string
	add := func(count int, what string) {
		if count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count, what))
		}
	}
	add(n.Created, "created again")
	add(n.Updated, "updated")
	add(n.Deleted, "deleted")
	if len(parts) == 0 {
		parts = []string{"nothing to write"}
	}
	add(n.WithoutLease, "of them without a lease, because theirs has ended (--skip-expired leaves out those that are "+
		"gone)")
	add(n.Kept, "kept that did not exist then (--delete-new deletes them)")
	add(n.Expired, "left out because their lease has ended")
	add(n.Equal, "equal")
	return strings.Join(parts, ", ")
}
