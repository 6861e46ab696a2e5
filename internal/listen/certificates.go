package listen

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Files says where TLS takes its certificates from. The zero Files means no TLS.
type Files struct {
	// Cert and Key are the server's certificate chain and private key, PEM.
	Cert, Key string
	// TrustedCA holds the authorities that sign client certificates, PEM. As in etcd, naming them is enough to refuse
	// clients without such a certificate.
	TrustedCA string
	// RequireClientCert says the same aloud: it is an error without TrustedCA.
	RequireClientCert bool
	// MinVersion is the oldest TLS version accepted, 0 for TLS 1.2.
	MinVersion uint16
	// CipherSuites are those of TLS 1.2 that are accepted, nil for Go's choice.
	CipherSuites []uint16
}

// Check returns an error if f cannot be right, without looking at the files.
func (f Files) Check() error {
	switch {
	case f.Cert == "" || f.Key == "":
		return errors.New("TLS needs both a certificate and a key: set --cert-file and --key-file")
	case f.RequireClientCert && f.TrustedCA == "":
		return errors.New("--client-cert-auth needs --trusted-ca-file")
	}
	return nil
}

// settling is for how long an unchanged time and size are not taken to mean unchanged contents: two writes may fall
// into one tick of the file system's clock. It counts from the first look, as that clock may be wrong.
const settling = 2 * time.Second

// Certificates serves TLS with the current contents of its files. Each handshake looks whether one has changed; when
// the new contents are no good it logs that and goes on with the old ones.
type Certificates struct {
	log *slog.Logger

	mu      sync.Mutex
	files   Files
	now     *contents // the last good ones
	err     error     // why those tried last are no good
	seen    signature // of the contents tried last
	since   time.Time // when seen was first seen
	settled bool      // the contents need no second look while seen stays the same
	clock   func() time.Time
}

// signature tells whether files have changed.
type signature [3]struct {
	modified time.Time
	size     int64
}

// NewCertificates reads the files.
func NewCertificates(files Files, log *slog.Logger) (*Certificates, error) {
	c := &Certificates{log: log, clock: time.Now}
	if err := c.SetFiles(files); err != nil {
		return nil, err
	}
	return c, nil
}

// SetFiles reads other files, or the same ones again, and keeps what it had if that fails.
func (c *Certificates) SetFiles(files Files) error {
	if err := files.Check(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	seen, since := look(files), c.clock()
	now, err := load(files)
	if err != nil {
		return err
	}
	c.files, c.now, c.err, c.seen, c.since, c.settled = files, now, nil, seen, since, false
	return nil
}

// Config returns a TLS configuration that asks c for each handshake.
func (c *Certificates) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, // the handshake's own configuration decides
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			return c.current().config, nil
		},
	}
}

// current returns the newest good contents.
func (c *Certificates) current() *contents {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := look(c.files)
	changed := seen != c.seen
	if !changed && c.settled {
		return c.now
	}
	if changed {
		c.seen, c.since = seen, c.clock()
	}
	settled := c.clock().Sub(c.since) >= settling // before the load: what is written during it is looked for again
	now, err := load(c.files)
	failed := c.err
	// why a load fails need not show in times and sizes: a mode, too many open files
	c.err, c.settled = err, settled && err == nil
	switch {
	case err == nil:
		c.now = now
		if changed || failed != nil {
			c.log.Info("TLS files have changed and are in use", "cert-file", c.files.Cert)
		}
	case changed || failed == nil || failed.Error() != err.Error():
		c.log.Error("TLS files have changed and cannot be used; staying with the old ones", "error", err)
	}
	return c.now
}

func look(f Files) signature {
	var s signature
	for i, name := range []string{f.Cert, f.Key, f.TrustedCA} {
		if info, err := os.Stat(name); err == nil {
			s[i].modified, s[i].size = info.ModTime(), info.Size()
		}
	}
	return s
}

// contents is what the files hold.
type contents struct {
	config    *tls.Config
	leaf      *x509.Certificate
	authority *x509.Certificate // of the clients' the one that ends last, nil without any
}

func load(f Files) (*contents, error) {
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("read certificate %s and key %s: %w", f.Cert, f.Key, err)
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{pair},
		MinVersion:   max(f.MinVersion, tls.VersionTLS12),
		CipherSuites: f.CipherSuites,
		NextProtos:   []string{"h2", "http/1.1"},
	}
	now := &contents{config: config, leaf: pair.Leaf}
	if f.TrustedCA == "" {
		return now, nil
	}
	text, err := os.ReadFile(f.TrustedCA)
	if err != nil {
		return nil, fmt.Errorf("read trusted CA: %w", err)
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("trusted CA file %s holds no certificate", f.TrustedCA)
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	now.authority = lastToEnd(text)
	return now, nil
}
