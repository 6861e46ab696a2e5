package sqlstore

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/sqlstore/sqlstore/backend/postgres"
	"github.com/sqlstore/sqlstore/internal/audit"
	"github.com/sqlstore/sqlstore/internal/authn"
	"github.com/sqlstore/sqlstore/internal/listen"
	"github.com/sqlstore/sqlstore/internal/setting"
)

// Check returns the error with which [Start] refuses the settings or the files that they name, before it listens or
// opens the database. It changes nothing. Errors: [ErrConfig], [ErrPlaintext], [ErrEtcdData], [compactor.ErrConfig],
// those of reading files.
func (c *Config) Check() error {
	if err := c.check(); err != nil {
		return err
	}
	if err := c.checkTLS(); err != nil {
		return err
	}
	urls := slices.Concat(c.ListenClientURLs, c.ListenClientHTTPURLs, c.ListenMetricsURLs, c.ListenObjectsURLs,
		c.ListenConsoleURLs)
	if _, err := c.parseURLs(urls, c.TLS.wanted() || c.AutoTLS); err != nil {
		return err
	}
	if _, _, err := c.parseAuth(slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	if err := c.Compaction.Check(); err != nil {
		return err
	}
	if c.AuditLog != "" && c.AuditLog != "-" {
		if _, err := os.Stat(filepath.Dir(c.AuditLog)); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrConfig, setting.Name("AuditLog"), err)
		}
	}
	if c.OnPostgres() {
		if err := c.checkPasswordFile(); err != nil {
			return err
		}
		return postgres.CheckDSN(c.postgres())
	}
	path, err := c.file()
	if err != nil {
		return err
	}
	return refuseEtcdData(path)
}

// checkTLS reads the files. If a start would generate a pair, it reads one in a temporary place with the others.
func (c *Config) checkTLS() error {
	trial := *c
	if c.AutoTLS && c.DataDir != "" {
		dir, err := os.MkdirTemp("", "sqlstore-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		trial.DataDir = dir
	}
	auto, err := trial.autoTLS(slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	f := auto.files(c.TLS)
	if !f.wanted() {
		return nil
	}
	_, err = f.load(slog.New(slog.DiscardHandler))
	return err
}

// load reads the files. Errors: [ErrConfig], those of reading them.
func (f TLSFiles) load(log *slog.Logger) (*listen.Certificates, error) {
	files := listen.Files(f)
	if err := files.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if insecure := files.InsecureSuites(); len(insecure) > 0 {
		log.Warn(setting.Name("TLS.CipherSuites")+" allows cipher suites with known security issues: leave them out",
			"suites", insecure)
	}
	return listen.NewCertificates(files, log)
}

// parseURLs parses URLs to listen on, and checks that they may be served. Errors: [ErrConfig], [ErrPlaintext].
func (c *Config) parseURLs(raw []string, hasTLS bool) ([]listen.URL, error) {
	urls, err := listen.ParseURLs(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if !c.InsecurePlaintext {
		if err := listen.CheckPlaintext(urls); err != nil {
			return nil, err
		}
	}
	for _, u := range urls {
		if u.Secure() && !hasTLS {
			return nil, fmt.Errorf("%w: %s needs a certificate and its key: set %s and %s", ErrConfig, u,
				setting.Name("TLS.Cert"), setting.Name("TLS.Key"))
		}
	}
	return urls, nil
}

// parseAuth checks the settings of tokens and of the audit log. Errors: [ErrConfig], those of reading files.
func (c *Config) parseAuth(log *slog.Logger) (authn.Tokens, audit.Level, error) {
	tokens, err := authn.ParseTokens(cmp.Or(c.AuthToken, "simple"), c.AuthTokenTTL, log)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %s: %w", ErrConfig, setting.Name("AuthToken"), err)
	}
	level, err := audit.ParseLevel(cmp.Or(c.AuditLogLevel, "writes"))
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %s: %w", ErrConfig, setting.Name("AuditLogLevel"), err)
	}
	return tokens, level, nil
}
