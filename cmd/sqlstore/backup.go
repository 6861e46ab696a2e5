package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/show"
	"github.com/sqlstore/sqlstore/internal/backup"
	"github.com/sqlstore/sqlstore/internal/transfer"
)

const backupHelp = `Save a whole store once, as a full backup.

    sqlstore backup --to /var/backups/sqlstore
    sqlstore backup --from /var/lib/sqlstore/snapshot.db --to 's3://bucket?region=eu-central-1&prefix=cluster-1/'

By default the store is that of the server on this machine; --from takes what 'sqlstore import' takes.
A server started with --backup-to saves its own store continuously, every few seconds. 'sqlstore restore'
restores what either has saved.`

// backupper implements the command.
type backupper struct {
	source     sourceFlags
	to         string
	recipients []string
}

func backupCommand() *cobra.Command {
	b := &backupper{}
	cmd := &cobra.Command{
		Use: "backup", Short: "Save a whole store, and manage backups", Long: backupHelp, Args: noArgs,
	}
	f := cmd.Flags()
	b.source.register(f)
	f.Lookup("from").DefValue = "http://127.0.0.1:2379"
	b.source.from = "http://127.0.0.1:2379"
	f.StringVar(&b.to, "to", "", "where to save it: "+bucketForms)
	f.StringArrayVar(&b.recipients, "recipient", nil, recipientHelp)
	cmd.RunE = func(c *cobra.Command, _ []string) error {
		if err := applyEnvironment(c.Flags(), given(c.Flags()), os.LookupEnv); err != nil {
			return err
		}
		if empty := emptyProtections(c.Flags(), c.Name(), os.LookupEnv); len(empty) > 0 {
			if _, err := fmt.Fprintf(c.ErrOrStderr(), "Warning: %s: %s\n", emptyProtectionsMessage,
				strings.Join(empty, ", ")); err != nil {
				return err
			}
		}
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return b.run(ctx, c.OutOrStdout(), c.ErrOrStderr())
	}
	cmd.AddCommand(backupListCommand(), backupVerifyCommand(), backupPruneCommand())
	return cmd
}

func (b *backupper) run(ctx context.Context, out, errOut io.Writer) (err error) {
	if b.to == "" {
		return fmt.Errorf("%w: --to is required: %s", errSettings, bucketForms)
	}
	recipients, err := parseRecipients("recipient", b.recipients)
	if err != nil {
		return err
	}
	r, err := openBucket(ctx, "to", b.to, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Bucket.Close()) }()
	r.Recipients = recipients
	at := time.Now().UTC().Truncate(time.Millisecond)
	src, err := b.source.open(ctx, nil, errOut)
	if err != nil {
		return err
	}
	p := newTransferProgress(errOut, src.Contents())
	name, footer, err := r.Full(ctx, &observed{Source: src.Source, p: p, done: transfer.Progress{Step: "writing"}},
		sqlstore.Version, at)
	p.end()
	if err := errors.Join(err, src.Close()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s: %s up to revision %d\n", name, show.Number(footer.Rows, "row"), name.Revision)
	return err
}

// bucketFlags name a bucket to read.
type bucketFlags struct {
	at         string
	identities []string
}

const identityHelp = "file with the age key that decrypts encrypted backups; may be repeated"

func (b *bucketFlags) register(f *pflag.FlagSet, flag string) {
	f.StringVar(&b.at, flag, "", "where the backups are: "+bucketForms)
	f.StringArrayVar(&b.identities, "identity-file", nil, identityHelp)
}

func (b *bucketFlags) open(ctx context.Context, flag string) (*backup.Repository, error) {
	if b.at == "" {
		return nil, fmt.Errorf("%w: --%s is required: %s", errSettings, flag, bucketForms)
	}
	r, err := openBucket(ctx, flag, b.at, false)
	if err != nil {
		return nil, err
	}
	if r.Identities, err = readIdentities("identity-file", b.identities); err != nil {
		return nil, errors.Join(err, r.Bucket.Close())
	}
	return r, nil
}
