package listen

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/internal/setting"
)

// Files names the certificate files of TLS. The zero Files means no TLS.
type Files struct {
	// Cert and Key are the server's certificate chain and private key, in PEM.
	Cert, Key string
	// TrustedCA holds the authorities that sign client certificates, in PEM. As in etcd, setting it is enough to refuse
	// clients without such a certificate.
	TrustedCA string
	// RequireClientCert makes an empty TrustedCA an error.
	RequireClientCert bool
	// CRL is a list of revoked client certificates, in DER or PEM. A certificate is refused if its serial number, or
	// that of an authority in its chain, is on the list.
	CRL string
	// AllowedHosts are host names. If there are any, a client certificate must be for one of them.
	AllowedHosts []string
	// AllowedNames are common names, instead of AllowedHosts. If there are any, a client certificate must have one of
	// them.
	AllowedNames []string
	// MinVersion is the oldest TLS version to accept. 0 means TLS 1.2.
	MinVersion uint16
	// MaxVersion is the newest TLS version to accept. 0 means the newest that Go knows.
	MaxVersion uint16
	// CipherSuites are the TLS 1.2 cipher suites to accept. nil means Go's choice.
	CipherSuites []uint16
}

// Check returns an error if f cannot be valid, without opening the files.
func (f Files) Check() error {
	switch {
	case f.Cert == "" || f.Key == "":
		return fmt.Errorf("TLS needs both a certificate and a key: set %s and %s", setting.Name("TLS.Cert"),
			setting.Name("TLS.Key"))
	case f.RequireClientCert && f.TrustedCA == "":
		return fmt.Errorf("%s needs %s", setting.Name("TLS.RequireClientCert"), setting.Name("TLS.TrustedCA"))
	case f.CRL != "" && f.TrustedCA == "":
		return fmt.Errorf("%s needs %s: without it, clients show no certificates", setting.Name("TLS.CRL"),
			setting.Name("TLS.TrustedCA"))
	case len(f.AllowedHosts) > 0 && f.TrustedCA == "":
		return fmt.Errorf("%s needs %s: without it, clients show no certificates", setting.Name("TLS.AllowedHosts"),
			setting.Name("TLS.TrustedCA"))
	case len(f.AllowedNames) > 0 && f.TrustedCA == "":
		return fmt.Errorf("%s needs %s: without it, clients show no certificates", setting.Name("TLS.AllowedNames"),
			setting.Name("TLS.TrustedCA"))
	case slices.ContainsFunc(f.AllowedHosts, blank): // it would refuse everyone
		return fmt.Errorf("%s has an empty name: give the hosts, or leave it out", setting.Name("TLS.AllowedHosts"))
	case slices.ContainsFunc(f.AllowedNames, blank):
		return fmt.Errorf("%s has an empty name: give the common names, or leave it out",
			setting.Name("TLS.AllowedNames"))
	case len(f.AllowedHosts) > 0 && len(f.AllowedNames) > 0:
		return fmt.Errorf("%s and %s exclude each other", setting.Name("TLS.AllowedHosts"),
			setting.Name("TLS.AllowedNames"))
	}
	return f.CheckVersions()
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

// settling is how long an unchanged time and size do not prove unchanged contents: two writes may fall into one tick of
// the file system's clock. It counts from the first check, because that clock may be wrong.
const settling = 2 * time.Second

// Certificates serves TLS with the current contents of its files. Each handshake checks whether one has changed. If the
// new contents are unusable, it logs that and keeps the old ones.
type Certificates struct {
	log     *slog.Logger
	tickets tickets

	mu      sync.Mutex
	files   Files
	now     *contents // the last usable ones
	err     error     // why the latest contents are unusable
	seen    signature // of the latest contents
	since   time.Time // when seen was first seen
	settled bool      // the contents need no second check while seen stays the same
	clock   func() time.Time
}

// signature identifies a version of the files.
type signature [4]struct {
	modified time.Time
	size     int64
}

// NewCertificates reads the files.
func NewCertificates(files Files, log *slog.Logger) (*Certificates, error) {
	c := &Certificates{log: log, tickets: newTickets(), clock: time.Now}
	if err := c.SetFiles(files); err != nil {
		return nil, err
	}
	return c, nil
}

// SetFiles reads other files, or the same ones again. If that fails, it keeps the previous contents.
func (c *Certificates) SetFiles(files Files) error {
	if err := files.Check(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	seen, since := stat(files), c.clock()
	now, err := c.load(files)
	if err != nil {
		return err
	}
	for _, lost := range c.files.lost(files) {
		c.log.Warn(lost)
	}
	c.files, c.now, c.err, c.seen, c.since, c.settled = files, now, nil, seen, since, false
	return nil
}

// Config returns a TLS configuration that asks c in each handshake.
func (c *Certificates) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, // the handshake's own configuration decides
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			return c.current().config, nil
		},
	}
}

// current returns the newest usable contents.
func (c *Certificates) current() *contents {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := stat(c.files)
	changed := seen != c.seen
	if !changed && c.settled {
		return c.now
	}
	if changed {
		c.seen, c.since = seen, c.clock()
	}
	settled := c.clock().Sub(c.since) >= settling // before the load, so that a write during the load is noticed later
	now, err := c.load(c.files)
	failed := c.err
	// a load may fail for reasons that times and sizes do not show: a mode, too many open files
	c.err, c.settled = err, settled && err == nil
	switch {
	case err == nil:
		c.now = now
		if changed || failed != nil {
			c.log.Info("TLS files changed, using the new ones", "cert-file", c.files.Cert)
		}
	case changed || failed == nil || failed.Error() != err.Error():
		c.log.Error("TLS files changed but cannot be used, keeping the old ones", "error", err)
	}
	return c.now
}

// names returns the files. A name is empty if there is no such file.
func (f Files) names() [4]string { return [4]string{f.Cert, f.Key, f.TrustedCA, f.CRL} }

func stat(f Files) signature {
	var s signature
	for i, name := range f.names() {
		if info, err := os.Stat(name); err == nil {
			s[i].modified, s[i].size = info.ModTime(), info.Size()
		}
	}
	return s
}

// contents is what the files contain.
type contents struct {
	config    *tls.Config
	origin    [sha256.Size]byte // of sessions
	leaf      *x509.Certificate
	authority *x509.Certificate // the clients' authority that expires last, nil without any
}

func (c *Certificates) load(f Files) (*contents, error) {
	now, err := load(f)
	if err == nil {
		c.tickets.use(now)
	}
	return now, err
}

func load(f Files) (*contents, error) {
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("read certificate %s and key %s: %w", f.Cert, f.Key, err)
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{pair},
		MinVersion:   max(f.MinVersion, tls.VersionTLS12),
		MaxVersion:   f.MaxVersion,
		CipherSuites: f.CipherSuites,
		NextProtos:   []string{"h2", "http/1.1"},
	}
	now := &contents{config: config, leaf: pair.Leaf, origin: originOf(pair.Certificate, nil)}
	if config.VerifyConnection, err = f.clientCheck(); err != nil {
		return nil, err
	}
	if f.TrustedCA == "" {
		return now, nil
	}
	text, err := os.ReadFile(f.TrustedCA)
	if err != nil {
		return nil, fmt.Errorf("read trusted CA: %w", err)
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("trusted CA file %s contains no certificate", f.TrustedCA)
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	now.origin = originOf(pair.Certificate, text)
	now.authority = lastToEnd(text)
	return now, nil
}
