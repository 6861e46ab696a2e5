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

// settling is how old a file must be before an unchanged time and size are taken to mean unchanged contents: two writes
// may fall into one tick of the file system's clock.
const settling = 2 * time.Second

// Certificates serves TLS with the current contents of its files. Each handshake looks whether one has changed; when the
// new contents are no good it logs that and goes on with the old ones.
type Certificates struct {
	log *slog.Logger

	mu      sync.Mutex
	files   Files
	config  *tls.Config // of the last good contents
	seen    signature   // of the contents tried last
	settled bool        // seen needs no second look while it stays the same
}

// signature tells whether files have changed.
type signature [3]struct {
	modified time.Time
	size     int64
}

// NewCertificates reads the files.
func NewCertificates(files Files, log *slog.Logger) (*Certificates, error) {
	c := &Certificates{log: log}
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
	seen := look(files)
	config, err := load(files)
	if err != nil {
		return err
	}
	c.files, c.config, c.seen, c.settled = files, config, seen, seen.old()
	return nil
}

// Config returns a TLS configuration that asks c for each handshake.
func (c *Certificates) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, // the handshake's own configuration decides
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			return c.current(), nil
		},
	}
}

// current returns the configuration of the newest good contents.
func (c *Certificates) current() *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := look(c.files)
	if seen == c.seen && c.settled {
		return c.config
	}
	config, err := load(c.files)
	changed := seen != c.seen
	c.seen, c.settled = seen, seen.old()
	switch {
	case err == nil:
		c.config = config
		if changed {
			c.log.Info("TLS files have changed and are in use", "cert-file", c.files.Cert)
		}
	case changed:
		c.log.Error("TLS files have changed and cannot be used; staying with the old ones", "error", err)
	}
	return c.config
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

func (s signature) old() bool {
	limit := time.Now().Add(-settling)
	for _, f := range s {
		if f.modified.After(limit) {
			return false
		}
	}
	return true
}

func load(f Files) (*tls.Config, error) {
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
	if f.TrustedCA == "" {
		return config, nil
	}
	pem, err := os.ReadFile(f.TrustedCA)
	if err != nil {
		return nil, fmt.Errorf("read trusted CA: %w", err)
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("trusted CA file %s holds no certificate", f.TrustedCA)
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	return config, nil
}
