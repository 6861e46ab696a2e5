package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/putback"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/source"
)

// errLeftAlone is returned if keys were not put back because of what somebody else wrote, or of their size.
var errLeftAlone = errors.New("not all keys are as they were")

// errNoTimes is returned for a time, by a server that knows none. [source.ErrNoTimes] names flags of other commands.
var errNoTimes = errors.New("the server does not tell when revisions were committed")

// keyRestorer puts keys of a running store back.
type keyRestorer struct {
	reader
	output

	saved       *storeRestorer // where the old values are, nil for the server's own history
	keys        []string
	exact       bool
	toRevision  int64
	toTime      string
	deleteNew   bool
	skipExpired bool
	full        bool
	dryRun, yes bool
}

func (k *keyRestorer) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	f.StringArrayVar(&k.keys, "keys", nil, "put back the keys that begin with this prefix; can be given several times")
	f.BoolVar(&k.exact, "exact", false, "--keys is a whole key, not a prefix")
	f.Int64Var(&k.toRevision, "to-revision", 0, "to the state at this revision")
	f.StringVar(&k.toTime, "to-time", "", "to the state at "+pointHelp)
	f.BoolVar(&k.deleteNew, "delete-new", false, "delete keys that did not exist then (default: keep them)")
	f.BoolVar(&k.skipExpired, "skip-expired", false, "leave out keys that are gone and whose lease has ended, such as "+
		"Events (default: put them back without a lease)")
	f.BoolVar(&k.full, "full", false, "print the lines that differ")
	f.BoolVar(&k.dryRun, "dry-run", false, "print what differs, and write nothing")
	f.BoolVar(&k.yes, "yes", false, "do not ask before writing")
	k.output.register(cmd, "table", "json", "yaml")
	k.asker.register(f, "client URLs of the servers: http, https, unix or unixs")
	k.login.register(f)
	_ = cmd.RegisterFlagCompletionFunc("keys", k.completeKeysFlag)
}

// completeKeysFlag completes a key, whatever the arguments are.
func (k *keyRestorer) completeKeysFlag(
	c *cobra.Command, _ []string, begun string,
) ([]string, cobra.ShellCompDirective) {
	return k.completeKeys(c, nil, begun)
}

// spans returns what --keys selects, without overlaps.
func (k *keyRestorer) spans() (spans []backend.Span, err error) {
	names := slices.Clone(k.keys)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		span := source.Prefix(name)
		if k.exact {
			span = source.Key(name)
		}
		switch last := len(spans) - 1; {
		case name == "":
			return nil, fmt.Errorf("%w: --keys is empty: give the prefix of the keys, such as /registry/configmaps/",
				errSettings)
		case !k.exact && last >= 0 && bytes.HasPrefix(span.Start, spans[last].Start):
		default:
			spans = append(spans, span)
		}
	}
	return spans, nil
}

// point returns the revision that the flags name.
func (k *keyRestorer) point(ctx context.Context, s source.Store) (int64, error) {
	switch {
	case (k.toRevision == 0) == (k.toTime == ""):
		return 0, fmt.Errorf("%w: give either --to-revision or --to-time; 'sqlstore history KEY' shows revisions and "+
			"times", errSettings)
	case k.toTime != "":
		return pointInTime(ctx, s, k.toTime)
	case k.toRevision < 0:
		return 0, fmt.Errorf("%w: --to-revision %d: revisions begin at 1", errSettings, k.toRevision)
	}
	return k.toRevision, nil
}

// pointInTime returns the revision that was current at a time.
func pointInTime(ctx context.Context, s source.Store, text string) (int64, error) {
	t, err := parseTime("to-time", text, time.Now())
	if err != nil {
		return 0, err
	}
	revision, err := currentAt(ctx, s, "to-time", t)
	if errors.Is(err, source.ErrNoTimes) {
		err = fmt.Errorf("--to-time: %w: name a revision with --to-revision; 'sqlstore history KEY' shows them",
			errNoTimes)
	}
	return revision, err
}

// run puts the keys back.
func (k *keyRestorer) run(ctx context.Context, c *cobra.Command) (err error) {
	spans, err := k.spans()
	if err := errors.Join(err, k.check()); err != nil {
		return err
	}
	s, err := k.server(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	then, err := k.past(ctx, s, spans, c.ErrOrStderr())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, then.close()) }()
	now, err := s.Now(ctx, spans[0])
	if err != nil {
		return err
	}
	r, err := newRestoration(k, c, then, now)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.plan.Close()) }()
	compare := &putback.Comparison{
		Then: then, Now: &putback.History{Server: s, Revision: now}, Values: then.chain != "",
		Lives: putback.Leases(s.Client), Spans: spans,
	}
	if err := r.compare(ctx, compare); err != nil {
		return k.advise(err)
	}
	if k.dryRun || r.plan.Len() == 0 {
		return nil
	}
	if err := k.ask(ctx, c, r.question()); err != nil {
		return err
	}
	return r.write(ctx, s.Client)
}

// advise says what to do about history that is gone.
func (k *keyRestorer) advise(err error) error {
	if errors.Is(err, backend.ErrCompacted) || errors.Is(err, rpctypes.ErrCompacted) ||
		errors.Is(err, backend.ErrUnknownTime) {
		return fmt.Errorf("%w: choose a later one, or take the keys from a backup with --from; nothing was written",
			err)
	}
	return err
}
