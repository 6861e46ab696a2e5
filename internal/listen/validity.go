package listen

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"time"
)

const (
	// expiringLeft is how long before its end a certificate counts as expiring. A short-lived one counts only when less
	// than a third of its life is left.
	expiringLeft = 30 * 24 * time.Hour
	expiringPart = 3
)

// Validity is the period in which a certificate is valid.
type Validity struct {
	// File is where the certificate comes from.
	File                string
	NotBefore, NotAfter time.Time
}

// Expiring reports whether less than 30 days, and less than a third of its life, is left.
func (v Validity) Expiring(now time.Time) bool {
	return v.NotAfter.Sub(now) < min(expiringLeft, v.NotAfter.Sub(v.NotBefore)/expiringPart)
}

// CertificateState is the state of [Certificates].
type CertificateState struct {
	// Served are the server's own certificate and, if clients need one, the authority that signs theirs. Of several
	// authorities it is the one that expires last: during a replacement, the old one stands next to the new one.
	Served []Validity
	// Err is why the current files are unusable, or nil. Until it is resolved, the previous contents are served.
	Err error
}

// State checks whether the files have changed, as a handshake does, and returns what is served.
func (c *Certificates) State() CertificateState {
	now := c.current()
	c.mu.Lock()
	defer c.mu.Unlock()
	st := CertificateState{Err: c.err, Served: []Validity{validity(c.files.Cert, now.leaf)}}
	if now.authority != nil {
		st.Served = append(st.Served, validity(c.files.TrustedCA, now.authority))
	}
	if st.Err == nil {
		st.Err = readable(c.files)
	}
	return st
}

func validity(file string, c *x509.Certificate) Validity {
	return Validity{File: file, NotBefore: c.NotBefore, NotAfter: c.NotAfter}
}

// readable checks whether this process may still read the files, which their times do not show.
func readable(files Files) error {
	for _, name := range files.names() {
		if name == "" {
			continue
		}
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		_ = f.Close()
	}
	return nil
}

// lastToEnd returns the certificate of a PEM file that expires last.
func lastToEnd(text []byte) (last *x509.Certificate) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil &&
			(last == nil || c.NotAfter.After(last.NotAfter)) {
			last = c
		}
	}
	return last
}
