package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/show"
	"github.com/sqlstore/sqlstore/internal/backup"
)

// errBadBackups is returned after the problems were printed.
var errBadBackups = errors.New("some backups are damaged or incomplete: what is left can be restored, see above")

// overBucket makes a command that works on the bucket at --from.
func overBucket(
	use, short, long string, f func(ctx context.Context, r *backup.Repository, out, errOut io.Writer) error,
) *cobra.Command {
	b := &bucketFlags{}
	cmd := &cobra.Command{Use: use, Short: short, Long: long, Args: noArgs}
	b.register(cmd.Flags(), "from")
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		if err := applyEnvironment(c.Flags(), given(c.Flags()), os.LookupEnv); err != nil {
			return err
		}
		r, err := b.open(c.Context(), "from")
		if err != nil {
			return err
		}
		return errors.Join(f(c.Context(), r, c.OutOrStdout(), c.ErrOrStderr()), r.Bucket.Close())
	}
	return cmd
}

func backupListCommand() *cobra.Command {
	return overBucket("list", "List the chains of backups, and what they can restore",
		"List the chains of backups. A chain is a full backup with the changes since; every revision and time\n"+
			"from FROM to TO can be restored. If files are missing, the lines below the table say so.", listBackups)
}

func listBackups(ctx context.Context, r *backup.Repository, out, _ io.Writer) error {
	all, err := r.Chains(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "CHAIN\tFROM\tTO\tREVISIONS\tFILES\tBYTES\tENCRYPTED")
	for i := range all {
		c := &all[i]
		size := int64(0)
		for _, f := range c.Files {
			size += f.Size
		}
		first, last := c.Full(), c.Last()
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%d-%d\t%d\t%s\t%v\n", c.Name, first.At.Format(time.RFC3339),
			last.At.Format(time.RFC3339), first.Revision, last.Revision, len(c.Files),
			humanize.IBytes(uint64(size)), last.Encrypted)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for i := range all {
		c := &all[i]
		if from, to := c.Missing(); from != 0 {
			_, _ = fmt.Fprintf(out, "%s: the files of revisions %d to %d are missing: what was saved after them "+
				"cannot be restored\n", c.Name, from, to)
		}
	}
	return nil
}

func backupVerifyCommand() *cobra.Command {
	return overBucket("verify", "Read all backups, and verify their checksums",
		"Read every file, and verify that it is complete and what was written, and that no file is missing\n"+
			"between two others. Encrypted files are decrypted if there is an --identity-file. The exit status is 1\n"+
			"if anything is wrong.", verifyBackups)
}

func verifyBackups(ctx context.Context, r *backup.Repository, out, errOut io.Writer) error {
	all, err := r.Chains(ctx)
	if err != nil {
		return err
	}
	headless, err := r.Headless(ctx)
	if err != nil {
		return err
	}
	for _, chain := range headless {
		_, _ = fmt.Fprintf(out, "%s: its full backup is missing: nothing can be restored from its changes\n", chain)
	}
	bad := len(headless) > 0
	if len(all) == 0 && !bad {
		return fmt.Errorf("%w: there is nothing to verify", backup.ErrNone)
	}
	p := newProgress(errOut)
	defer p.end()
	for i := range all {
		done := 0
		v, err := r.Verify(ctx, &all[i], func(f backup.File) {
			done++
			p.at(float64(done)/float64(len(all[i].Files)), func() string { return "verified " + f.String() })
		})
		if err != nil {
			return err
		}
		p.end()
		for _, problem := range v.Problems {
			_, _ = fmt.Fprintln(out, problem)
		}
		bad = bad || len(v.Problems) > 0
		depth := "decoded"
		if !v.Decoded {
			depth = "not decrypted"
		}
		_, _ = fmt.Fprintf(out, "%s: %s, %s, %s, %s, %s; restores up to revision %d\n", v.Chain.Name,
			show.Number(v.Files, "file"), humanize.IBytes(uint64(v.Bytes)), show.Number(v.Rows, "row"), depth,
			show.Number(len(v.Problems), "problem"), v.Through)
	}
	if bad {
		return errBadBackups
	}
	return nil
}

func backupPruneCommand() *cobra.Command {
	var keep time.Duration
	cmd := overBucket("prune", "Delete backups that are older than what is to be kept",
		"Delete the chains, of all stores in the bucket, that are not needed to restore any point within --keep.\n"+
			"The newest chain of a store always stays. A server with --backup-to does the same for its own.",
		func(ctx context.Context, r *backup.Repository, out, _ io.Writer) error {
			if keep <= 0 {
				return fmt.Errorf("%w: --keep must be positive", errSettings)
			}
			removed, err := r.Prune(ctx, time.Now().Add(-keep))
			for _, c := range removed {
				_, _ = fmt.Fprintf(out, "deleted %s, %s\n", c.Name, show.Number(len(c.Files), "file"))
			}
			return err
		})
	durationVar(cmd.Flags(), &keep, "keep", 7*24*time.Hour, "how far back every point stays restorable")
	return cmd
}
