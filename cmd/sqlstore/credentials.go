package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// certificates are the files with which a command connects to a server.
type certificates struct {
	cacert, cert, key string
}

func (c *certificates) register(f *pflag.FlagSet) {
	f.StringVar(&c.cacert, "cacert", "", "certificates of the authorities that sign the servers' certificates "+
		"(default: the system's)")
	f.StringVar(&c.cert, "cert", "", "the client's certificate for TLS")
	f.StringVar(&c.key, "key", "", "the private key of --cert")
}

// secure reports whether a file asks for TLS.
func (c *certificates) secure() bool { return c.cacert+c.cert != "" }

func (c *certificates) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.cacert != "" {
		text, err := os.ReadFile(c.cacert)
		if err != nil {
			return nil, fmt.Errorf("read --cacert: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%w: --cacert %s holds no certificate", errSettings, c.cacert)
		}
	}
	if (c.cert == "") != (c.key == "") {
		return nil, fmt.Errorf("%w: --cert and --key go together", errSettings)
	}
	if c.cert != "" {
		pair, err := tls.LoadX509KeyPair(c.cert, c.key)
		if err != nil {
			return nil, fmt.Errorf("read --cert and --key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// login is a user of a server, none if its name is empty.
type login struct {
	user, passwordFile string
}

func (l *login) register(f *pflag.FlagSet) {
	f.StringVar(&l.user, "user", "", "the user to log in as")
	f.StringVar(&l.passwordFile, "password-file", "", "file with the password of --user")
}

// password reads the password, "" without a user.
func (l *login) password() (string, error) {
	if (l.user == "") != (l.passwordFile == "") {
		return "", fmt.Errorf("%w: --user and --password-file go together", errSettings)
	}
	if l.user == "" {
		return "", nil
	}
	text, err := os.ReadFile(l.passwordFile)
	if err != nil {
		return "", fmt.Errorf("read --password-file: %w", err)
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}
