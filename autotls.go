package sqlstore

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sqlstore/sqlstore/internal/listen"
	"github.com/sqlstore/sqlstore/internal/setting"
)

// autoTLS names the generated certificate, if there is one.
type autoTLS struct{ cert, key string }

// files returns f with the generated certificate if f names none.
func (a autoTLS) files(f TLSFiles) TLSFiles {
	if f.Cert == "" && f.Key == "" {
		f.Cert, f.Key = a.cert, a.key
	}
	return f
}

// autoTLS generates a certificate if that is wanted. Errors: [ErrConfig], those of writing files.
func (c *Config) autoTLS(log *slog.Logger) (autoTLS, error) {
	switch {
	case !c.AutoTLS:
		return autoTLS{}, nil
	case c.TLS.Cert != "" || c.TLS.Key != "":
		log.Warn("a certificate is given, none is generated", "cert-file", c.TLS.Cert)
		return autoTLS{}, nil
	case c.DataDir == "":
		return autoTLS{}, fmt.Errorf("%w: %s needs %s, where the certificate is kept", ErrConfig,
			setting.Name("AutoTLS"), setting.Name("DataDir"))
	}
	dir := filepath.Join(c.DataDir, "fixtures", "client") // as in etcd
	a := autoTLS{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	made, err := listen.SelfSigned(a.cert, a.key, c.hosts(), cmp.Or(c.AutoTLSYears, 1))
	if err != nil {
		return autoTLS{}, errors.Join(errors.New("generate a certificate"), err)
	}
	if made {
		log.Warn("generated a certificate: clients have to trust its file", "cert-file", a.cert)
	}
	return a, nil
}

// hosts returns the names and addresses at which clients find the server.
func (c *Config) hosts() (hosts []string) {
	for _, raw := range slices.Concat(c.ListenClientURLs, c.ListenClientHTTPURLs, c.ListenMetricsURLs,
		c.ListenObjectsURLs, c.ListenConsoleURLs, c.AdvertiseClientURLs) {
		if listen.Wildcard(raw) {
			hosts = append(hosts, "localhost", "127.0.0.1", "::1")
		}
		// an invalid URL is refused later, a unix socket has no host
		if u, err := url.Parse(strings.TrimSpace(raw)); err == nil && u.Hostname() != "" {
			hosts = append(hosts, u.Hostname())
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}
