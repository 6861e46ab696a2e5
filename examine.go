package sqlstore

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/postgres"
	"github.com/sqlstore/sqlstore/backend/sqlite"
	"github.com/sqlstore/sqlstore/internal/machine"
)

// Examine says whether the machine, the files that the settings name and the place of the database suit a server. It
// may run beside servers: it migrates nothing, writes no rows, and does not open a SQLite database. It takes a few
// seconds, in which it measures how long syncs or commits take. If [Config.Check] fails, it does not look at the
// database.
func (c *Config) Examine(ctx context.Context) []backend.Finding {
	all := machine.Examine()
	all = append(all, c.examineCertificates(time.Now())...)
	if err := c.Check(); err != nil {
		return append(all, backend.Finding{
			Severity: backend.Failure, Subject: "settings", Detail: err.Error(),
			Advice: "correct them; a start refuses them",
		})
	}
	switch {
	case c.OnPostgres():
		return append(all, postgres.Examine(ctx, c.postgres())...)
	case c.Temporary():
		return all
	}
	path, err := c.file()
	if err != nil {
		return append(all, backend.Finding{Severity: backend.Failure, Subject: "settings", Detail: err.Error()})
	}
	return append(all, sqlite.Examine(ctx, path)...)
}

// examineCertificates says until when the certificates are valid. Files that cannot be read are an error of Check.
func (c *Config) examineCertificates(now time.Time) (all []backend.Finding) {
	if !c.TLS.wanted() {
		return nil
	}
	files, err := c.TLS.load(slog.New(slog.DiscardHandler))
	if err != nil {
		return nil
	}
	for _, v := range files.State().Served {
		f := backend.Finding{
			Subject: "certificate",
			Detail:  fmt.Sprintf("%s is valid until %s", v.File, v.NotAfter.UTC().Format(time.DateOnly)),
		}
		switch {
		case !now.Before(v.NotAfter) || now.Before(v.NotBefore):
			f.Severity, f.Advice = backend.Failure, "replace it, or correct this machine's clock: it is not valid now"
		case v.Expiring(now):
			f.Severity, f.Advice = backend.Warning, "renew it; servers read the file again without a restart"
		}
		all = append(all, f)
	}
	return all
}
