package listen

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// SelfSigned makes a certificate for hosts that signs itself, and its key, unless the files hold one that is not about
// to expire and covers the hosts. It reports whether it made one.
func SelfSigned(certFile, keyFile string, hosts []string, years int) (made bool, err error) {
	if usable(certFile, keyFile, hosts) {
		return false, nil
	}
	if err := os.MkdirAll(filepath.Dir(certFile), 0o700); err != nil {
		return false, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 128))
	if err != nil {
		return false, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{Organization: []string{"sqlstore"}},
		NotBefore: now, NotAfter: now.AddDate(years, 0, 0),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true, IsCA: true,
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return false, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return false, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return false, err
	}
	if err := writePEM(keyFile, "PRIVATE KEY", secret, 0o600); err != nil {
		return false, err
	}
	return true, writePEM(certFile, "CERTIFICATE", der, 0o644)
}

// usable reports whether the files hold a pair for the hosts that lasts for a while.
func usable(certFile, keyFile string, hosts []string) bool {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil || validity(certFile, pair.Leaf).Expiring(time.Now()) {
		return false
	}
	for _, host := range hosts {
		if pair.Leaf.VerifyHostname(host) != nil {
			return false
		}
	}
	return true
}

// writePEM replaces a file in one step.
func writePEM(path, kind string, bytes []byte, mode os.FileMode) error {
	next := path + ".new"
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes})
	if err := os.WriteFile(next, text, mode); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(next, path)
}
