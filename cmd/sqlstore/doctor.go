package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sqlstore/sqlstore/backend"
)

const doctorHelp = `Examine whether this machine, the files and the database suit a server with these settings: the
latency of syncs or commits, clock, limits, certificates, and the settings and privileges of Postgres.

It may run beside a server: it changes nothing, and does not open a SQLite database. It takes the flags, the variables
and the file that serve takes.

    sqlstore doctor --data-dir /var/lib/sqlstore
    sqlstore doctor --config-file /etc/sqlstore/sqlstore.yaml -o json

The exit code is 1 if there is a failure: something that stops a start, or makes it unsafe.`

func doctorCommand() *cobra.Command {
	o := &output{}
	cmd := configSubcommand("doctor", "Examine the machine and the database before a server runs, or beside it",
		func(cmd *cobra.Command, s *settings, _ map[string]bool) error {
			if err := o.check(); err != nil {
				return err
			}
			findings := examine(cmd.Context(), s)
			err := o.print(cmd.OutOrStdout(), findings, func(w io.Writer) error { return printFindings(w, findings) })
			if err == nil && countFindings(findings, backend.Failure) > 0 {
				return exitCode(1)
			}
			return err
		})
	cmd.Long = doctorHelp
	o.register(cmd, "table", "json", "yaml")
	return cmd
}

// examine reports settings that a start refuses as a finding, so that what reads the output finds them.
func examine(ctx context.Context, s *settings) []backend.Finding {
	if err := s.finish(); err != nil {
		return []backend.Finding{{
			Severity: backend.Failure, Subject: "settings", Detail: withoutPasswords(err.Error()),
			Advice: "correct them; a start refuses them",
		}}
	}
	return s.config.Examine(ctx)
}

// printFindings prints a table, with each advice below its finding, and a summary.
func printFindings(w io.Writer, findings []backend.Finding) error {
	rows := [][]string{{"SEVERITY", "SUBJECT", "FINDING"}}
	for _, f := range findings {
		rows = append(rows, []string{f.Severity.String(), f.Subject, cell(f.Detail)})
		if f.Advice != "" {
			rows = append(rows, []string{"", "", "-> " + f.Advice})
		}
	}
	if err := columns(w, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nfailures: %d, warnings: %d\n", countFindings(findings, backend.Failure),
		countFindings(findings, backend.Warning))
	return err
}

func countFindings(findings []backend.Finding, of backend.Severity) (n int) {
	for _, f := range findings {
		if f.Severity == of {
			n++
		}
	}
	return n
}
