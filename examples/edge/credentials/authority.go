package credentials

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"net"
	"os"
	"slices"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	// authorityLife and certificateLife are how long certificates are valid.
	authorityLife   = 10 * 365 * 24 * time.Hour
	certificateLife = 365 * 24 * time.Hour
	// renewal is how long before its end a start replaces a certificate.
	renewal = 90 * 24 * time.Hour
)

// authority signs the certificates of the server and its clients.
type authority struct {
	cert        *x509.Certificate
	certificate []byte // the same in PEM
	key         crypto.Signer
}

// loadAuthority reads the authority from a file, or makes one. A renewed one keeps its key, and so is trusted with the
// certificates that it signed before.
func loadAuthority(path string, now time.Time) (*authority, error) {
	a := &authority{}
	content, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	default:
		if err := a.parse(content); err != nil {
			return nil, err
		}
		if now.Add(certificateLife + renewal).Before(a.cert.NotAfter) {
			return a, nil
		}
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "edge"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(authorityLife),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, BasicConstraintsValid: true, IsCA: true,
	}
	certificate, key, err := sign(template, template, a.key, a.key)
	if err != nil {
		return nil, err
	}
	content = slices.Concat(certificate, key)
	if err := a.parse(content); err != nil {
		return nil, err
	}
	return a, writeFile(path, content)
}

// parse takes the certificate and the key from PEM.
func (a *authority) parse(content []byte) error {
	certs, err := cert.ParseCertsPEM(content)
	if err != nil {
		return err
	}
	key, err := keyutil.ParsePrivateKeyPEM(content)
	if err != nil {
		return err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return errors.New("the key cannot sign")
	}
	a.cert, a.key = certs[0], signer
	a.certificate = pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: a.cert.Raw})
	return nil
}

// ensureServer makes the pair of a server with these names, unless it is there and of use.
func (a *authority) ensureServer(path string, hosts []string, now time.Time) error {
	if old, err := os.ReadFile(path); err == nil && a.trusts(old, now, hosts...) {
		return nil
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	certificate, key, err := a.issue(template, now)
	if err != nil {
		return err
	}
	return writeFile(path, slices.Concat(certificate, key))
}

// template is the certificate with which kube-apiserver knows the user.
func (u user) template() *x509.Certificate {
	t := &x509.Certificate{
		Subject:     pkix.Name{CommonName: u.name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if u.group != "" {
		t.Subject.Organization = []string{u.group}
	}
	return t
}

// issue makes a key, and the certificate of the template for it, both in PEM.
func (a *authority) issue(template *x509.Certificate, now time.Time) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template.NotBefore, template.NotAfter = now.Add(-time.Hour), now.Add(certificateLife)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	return sign(template, a.cert, private, a.key)
}

// sign returns the certificate of the template for a key, and that key, both in PEM.
func sign(template, parent *x509.Certificate, key, signer crypto.Signer) (certificate, private []byte, err error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, nil, err
	}
	private, err = keyutil.MarshalPrivateKeyToPEM(key)
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der}), private, err
}

// trusts reports whether the authority signed the first certificate in PEM, for all these names, and it does not end
// soon.
func (a *authority) trusts(content []byte, now time.Time, hosts ...string) bool {
	certs, err := cert.ParseCertsPEM(content)
	if err != nil {
		return false
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	_, err = certs[0].Verify(x509.VerifyOptions{
		Roots: roots, CurrentTime: now.Add(renewal), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	return err == nil && !slices.ContainsFunc(hosts, func(host string) bool {
		return certs[0].VerifyHostname(host) != nil
	})
}
