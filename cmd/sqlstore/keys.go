package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/source"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/tally"
)

// errNoKey is returned for a key that does not exist.
var errNoKey = errors.New("no such key")

// exactKey wants one key, which is not empty.
func exactKey(cmd *cobra.Command, args []string) error {
	if err := cobra.ExactArgs(1)(cmd, args); err != nil || args[0] == "" {
		return fmt.Errorf("%w: give one key; 'sqlstore ls' lists them", errSettings)
	}
	return nil
}

// onePrefix wants at most one prefix.
func onePrefix(cmd *cobra.Command, args []string) error {
	if err := cobra.MaximumNArgs(1)(cmd, args); err != nil {
		return fmt.Errorf("%w: give one prefix, or none for all keys", errSettings)
	}
	return nil
}

// prefixOf returns the argument, "" if there is none.
func prefixOf(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// register defines the flags.
func (p *pinned) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.at, "at", "", "what was stored at "+pointHelp)
	cmd.Flags().Int64Var(&p.revision, "revision", 0, "what was stored at this revision (default: the current one)")
}

const (
	// completeWithin limits how long a completion takes, and mostCompletions how many it offers.
	completeWithin  = 2 * time.Second
	mostCompletions = 200
)

// completeKeys completes a key as a shell completes a path: up to the next slash.
func (r *reader) completeKeys(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 {
		return nil, none
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(context.Background()), completeWithin)
	defer cancel()
	c.SetContext(ctx)
	r.timeout = completeWithin
	s, err := r.open(c)
	if err != nil {
		cobra.CompDebugln(err.Error(), false)
		return nil, none
	}
	defer func() { _ = s.Close() }()
	found, err := completions(ctx, s, begun)
	if err != nil {
		cobra.CompDebugln(err.Error(), false)
		return nil, none
	}
	for _, key := range found {
		if key[len(key)-1] == '/' {
			return found, none | cobra.ShellCompDirectiveNoSpace
		}
	}
	return found, none
}

// completions returns the keys, or parts of keys up to a slash, that continue a text. It reads one key of each part.
func completions(ctx context.Context, s source.Store, begun string) (found []string, err error) {
	span := source.Prefix(begun)
	revision, err := s.Now(ctx, span)
	if err != nil {
		return nil, err
	}
	for len(found) < mostCompletions {
		next := ""
		err := s.Rows(ctx, source.Query{Span: span, Revision: revision, Limit: 1, KeysOnly: true},
			func(row *backend.Row) bool {
				next = string(row.Key)
				return false
			})
		if err != nil || next == "" {
			return found, err
		}
		part := tally.Below(begun, next)
		found = append(found, part)
		if span.Start = append([]byte(next), 0); part != next {
			span.Start = source.Behind(part)
		}
		if len(span.Start) == 0 || len(span.End) > 0 && string(span.Start) >= string(span.End) {
			return found, nil
		}
	}
	return found, nil
}

// warn tells people on standard error what is missing in the output.
func warn(c *cobra.Command, text string) {
	_, _ = fmt.Fprintln(c.ErrOrStderr(), "sqlstore:", text)
}
