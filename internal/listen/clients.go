package listen

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/sqlstore/sqlstore/internal/setting"
)

var (
	// errRevoked is returned for a client certificate that its authority has revoked.
	errRevoked = errors.New("the certificate is revoked")
	// errOtherHost is returned for a client certificate for a host that is not allowed.
	errOtherHost = errors.New("the certificate is for none of the allowed hosts")
	// errOtherName is returned for a client certificate with a common name that is not allowed.
	errOtherName = errors.New("the certificate has none of the allowed common names")
)

// clientCheck reads the list of revoked certificates and returns what a handshake checks beyond the signatures, also
// when it resumes a session. It is nil if there is nothing to check.
func (f Files) clientCheck() (func(tls.ConnectionState) error, error) {
	revoked, err := readRevoked(f.CRL)
	if err != nil {
		return nil, err
	}
	if revoked == nil && !f.named() {
		return nil, nil
	}
	return func(state tls.ConnectionState) error {
		for _, c := range state.PeerCertificates {
			if revoked[c.SerialNumber.String()] {
				return fmt.Errorf("%w: serial number %x", errRevoked, c.SerialNumber)
			}
		}
		for _, chain := range state.VerifiedChains {
			for _, c := range chain {
				if revoked[c.SerialNumber.String()] {
					return fmt.Errorf("%w: an authority's serial number %x", errRevoked, c.SerialNumber)
				}
			}
		}
		if len(f.AllowedHosts) > 0 && !slices.ContainsFunc(f.AllowedHosts, func(host string) bool {
			return len(state.PeerCertificates) > 0 && state.PeerCertificates[0].VerifyHostname(host) == nil
		}) {
			return errOtherHost
		}
		if len(f.AllowedNames) > 0 && (len(state.PeerCertificates) == 0 ||
			!slices.Contains(f.AllowedNames, state.PeerCertificates[0].Subject.CommonName)) {
			return errOtherName
		}
		return nil
	}, nil
}

// lost says which checks of clients next no longer makes.
func (f Files) lost(next Files) (lost []string) {
	if f.TrustedCA != "" && next.TrustedCA == "" {
		return []string{"clients need no certificate any more, because " + setting.Name("TLS.TrustedCA") +
			" is no longer set"}
	}
	if f.CRL != "" && next.CRL == "" {
		lost = append(lost, "revoked certificates are accepted, because "+setting.Name("TLS.CRL")+" is no longer set")
	}
	if f.named() && !next.named() {
		lost = append(lost, "certificates for any host and common name are accepted, because neither "+
			setting.Name("TLS.AllowedHosts")+" nor "+setting.Name("TLS.AllowedNames")+" is set any more")
	}
	return lost
}

// named reports whether only some hosts or common names are allowed.
func (f Files) named() bool { return len(f.AllowedHosts)+len(f.AllowedNames) > 0 }

// readRevoked returns the serial numbers in a list of revoked certificates.
func readRevoked(path string) (map[string]bool, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the list of revoked certificates: %w", err)
	}
	if block, _ := pem.Decode(text); block != nil {
		text = block.Bytes
	}
	list, err := x509.ParseRevocationList(text)
	if err != nil {
		return nil, fmt.Errorf("read the list of revoked certificates %s: %w", path, err)
	}
	revoked := map[string]bool{}
	for _, entry := range list.RevokedCertificateEntries {
		revoked[entry.SerialNumber.String()] = true
	}
	return revoked, nil
}
