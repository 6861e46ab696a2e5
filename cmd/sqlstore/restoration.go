package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/changes"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/putback"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/show"
)

// restoration compares keys with what they were, shows it and writes it.
type restoration struct {
	*keyRestorer

	out, errOut io.Writer
	then        *past
	now         int64
	plan        *putback.Plan
	owners      owners
	shown       []restored // not printed yet
	printed     bool
	counts      restoredCounts
}

// restoredCounts are numbers of keys.
type restoredCounts struct {
	Created      int `json:"created"` // again
	Updated      int `json:"updated"`
	Deleted      int `json:"deleted"`
	Kept         int `json:"kept"`    // that did not exist then
	Expired      int `json:"expired"` // whose lease has ended, and that are left out
	WithoutLease int `json:"withoutLease"`
	Equal        int `json:"equal"`
}

func newRestoration(k *keyRestorer, c *cobra.Command, then *past, now int64) (*restoration, error) {
	plan, err := putback.NewPlan()
	return &restoration{
		keyRestorer: k, out: c.OutOrStdout(), errOut: c.ErrOrStderr(), then: then, now: now, plan: plan,
	}, err
}

// compare fills the plan, and prints it.
func (r *restoration) compare(ctx context.Context, c *putback.Comparison) error {
	found, err := c.Run(ctx, r.add)
	if err != nil {
		return err
	}
	r.counts.Equal = found.Equal
	if found.Then+found.Now == 0 && !r.deleteNew {
		what := "begins with"
		if r.exact {
			what = "is"
		}
		return fmt.Errorf("%w: none %s %s, neither at %s nor now; 'sqlstore ls' lists keys", errNoKey, what,
			strings.Join(r.keys, " or "), r.then)
	}
	r.owners.rank(r.plan.Rank)
	return r.show()
}

// add plans what to do with a key that differs.
func (r *restoration) add(d *putback.Difference) error {
	line := describeRestored(d)
	switch {
	case d.Then == nil && !r.deleteNew:
		line.Change = changes.Change{Action: kept}
		r.counts.Kept++
	case d.Then == nil:
		r.counts.Deleted++
	case d.Now == nil && d.Ended != 0 && r.skipExpired:
		r.counts.Expired++
		return nil
	case d.Now == nil:
		r.counts.Created++
	default:
		r.counts.Updated++
	}
	if d.Then != nil && d.Ended != 0 && d.Lease == 0 {
		r.counts.WithoutLease++
	}
	if line.Action != kept {
		if d.Then != nil {
			r.owners.add(r.plan.Len(), d.Then)
		}
		if err := r.plan.Add(d); err != nil {
			return err
		}
	}
	return r.line(line, d)
}

// question asks whether to write.
func (r *restoration) question() string {
	puts := r.counts.Created + r.counts.Updated
	switch {
	case r.counts.Deleted == 0:
		return fmt.Sprintf("Write these %s?", show.Number(puts, "key"))
	case puts == 0:
		return fmt.Sprintf("Delete these %s?", show.Number(r.counts.Deleted, "key"))
	}
	return fmt.Sprintf("Write %s and delete %d?", show.Number(puts, "key"), r.counts.Deleted)
}

// write writes the plan, and says what was written.
func (r *restoration) write(ctx context.Context, client *clientv3.Client) error {
	p := newProgress(r.errOut)
	total := r.plan.Len()
	result, err := r.plan.Write(ctx, client, r.timeout, func(done int) {
		p.at(float64(done)/float64(total), func() string { return fmt.Sprintf("%d of %d keys", done, total) })
	})
	p.end()
	out := r.out
	if r.form != "table" {
		out = r.errOut
	}
	last := ""
	if result.Revision > 0 {
		last = fmt.Sprintf("; the store is at revision %d", result.Revision)
	}
	_, failed := fmt.Fprintf(out, "%s written, %d deleted%s\n", show.Number(result.Put, "key"), result.Deleted, last)
	for _, x := range result.Changed {
		text := fmt.Sprintf("%s was written meanwhile, at revision %d, and stays as it is", show.Key(x.Key), x.Revision)
		if x.Revision == 0 {
			text = show.Key(x.Key) + " was deleted meanwhile, and stays deleted"
		}
		_, _ = fmt.Fprintln(r.errOut, "sqlstore:", text)
	}
	for _, key := range result.TooLarge {
		_, _ = fmt.Fprintf(r.errOut, "sqlstore: %s is larger than the server's --max-request-bytes\n", show.Key(key))
	}
	again := fmt.Sprintf("run the command again with %s", r.then.flags())
	switch {
	case err != nil && ctx.Err() != nil:
		err = fmt.Errorf("interrupted: to write the rest, %s", again)
	case err != nil:
		err = fmt.Errorf("%w; what is written stays; once that is solved, %s", err, again)
	case len(result.Changed)+len(result.TooLarge) > 0:
		err = fmt.Errorf("%w: to see how the others differ, %s", errLeftAlone, again)
	}
	return errors.Join(err, failed)
}
