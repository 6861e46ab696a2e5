package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/sqlstore/sqlstore/internal/listen"
)

// checkUnused refuses settings that differ from their defaults and have no effect without another one, which somebody
// forgot. Errors: [errSettings].
func (s *settings) checkUnused() error {
	b := &s.backups
	noBackups := b.to == ""
	for _, f := range []struct {
		name, needs string
		unused      bool
	}{
		{"backup-interval", "backup-to", noBackups && b.interval != backupInterval},
		{"backup-full-interval", "backup-to", noBackups && b.fullInterval != backupFullInterval},
		{"backup-keep", "backup-to", noBackups && b.keep != backupKeep},
		{"backup-recipient", "backup-to", noBackups && len(b.recipients) > 0},
		{"console-writes", "listen-console-urls", s.consoleWrites && len(s.config.ListenConsoleURLs) == 0},
	} {
		if f.unused {
			return fmt.Errorf("%w: --%s has no effect without --%s: set both, or leave it out", errSettings, f.name,
				f.needs)
		}
	}
	return nil
}

// unusedSetting is a flag that somebody set and that has no effect.
type unusedSetting struct{ flag, reason string }

// unused returns the flags that a command line, a variable or the file sets and that other settings leave without
// effect. They stop no start, unlike those of checkUnused: a server that has run with them goes on. An empty value asks
// for nothing, and neither does false.
func (s *settings) unused(flags *pflag.FlagSet) (all []unusedSetting) {
	c := &s.config
	someTLS, allTLS := s.listensWithTLS()
	tokens, _, _ := strings.Cut(c.AuthToken, ",")
	retention, err := time.ParseDuration(cmp.Or(c.Compaction.Retention, "0")) // a plain number but 0 is an error
	for _, u := range []struct {
		unused bool
		reason string
		flags  []string
	}{
		{c.AuditLog == "", "--audit-log is not set", []string{"audit-log-level"}},
		{!s.traces, "--enable-distributed-tracing is not set", []string{
			"distributed-tracing-address", "distributed-tracing-service-name", "distributed-tracing-instance-id",
			"distributed-tracing-sampling-rate",
		}},
		{!someTLS, noTLS, []string{
			"cert-file", "key-file", "trusted-ca-file", "client-cert-auth", "client-crl-file",
			"client-cert-allowed-hostname", allowedNames, "auto-tls", "self-signed-cert-validity", "tls-min-version",
			"tls-max-version", "cipher-suites",
		}},
		{
			someTLS && (!c.AutoTLS || c.TLS.Cert+c.TLS.Key != ""), "no certificate is generated",
			[]string{"self-signed-cert-validity"},
		},
		{allTLS, "all listen URLs use TLS", []string{"host-whitelist"}},
		{tokens == "jwt", "the lifetime of JWTs is the option ttl of --auth-token", []string{"auth-token-ttl"}},
		{err == nil && retention == 0, "--auto-compaction-retention is 0", []string{"auto-compaction-mode"}},
		{!c.OnPostgres(), "the database is not Postgres", []string{"datastore-wait", "datastore-max-staleness"}},
		{c.OnPostgres(), "the database is not SQLite", []string{
			"no-page-checksums", "disk-reserve-bytes", "bootstrap-defrag-threshold-megabytes",
		}},
	} {
		for _, name := range u.flags {
			f := flags.Lookup(name)
			if u.unused && f.Changed && !isEmpty(f) && f.Value.String() != "false" {
				all = append(all, unusedSetting{name, u.reason})
			}
		}
	}
	return all
}

const noTLS = "no listen URL uses TLS"

// listensWithTLS reports whether some and whether all of the URLs to listen on use TLS. The start refuses invalid ones.
func (s *settings) listensWithTLS() (some, all bool) {
	c := &s.config
	urls, err := listen.ParseURLs(slices.Concat(c.ListenClientURLs, c.ListenClientHTTPURLs, c.ListenMetricsURLs,
		c.ListenObjectsURLs, c.ListenConsoleURLs))
	if err != nil {
		return true, false
	}
	plain := func(u listen.URL) bool { return !u.Secure() }
	return slices.ContainsFunc(urls, listen.URL.Secure), !slices.ContainsFunc(urls, plain)
}

func warnUnused(log *slog.Logger, all []unusedSetting) {
	for _, u := range all {
		log.Warn("a setting has no effect", "setting", "--"+u.flag, "reason", u.reason)
	}
}
