package listen

import (
	"crypto/tls"
	"fmt"
	"slices"

	"github.com/sqlstore/sqlstore/internal/setting"
)

// CheckVersions returns an error if no handshake could satisfy the versions and the cipher suites.
func (f Files) CheckVersions() error {
	switch {
	case f.MaxVersion != 0 && f.MaxVersion < max(f.MinVersion, tls.VersionTLS12):
		return fmt.Errorf("%s is older than %s", setting.Name("TLS.MaxVersion"), setting.Name("TLS.MinVersion"))
	case f.MinVersion > tls.VersionTLS12 && len(f.CipherSuites) > 0: // Go chooses those of TLS 1.3
		return fmt.Errorf("%s are for TLS 1.2, which %s excludes: leave one of them out",
			setting.Name("TLS.CipherSuites"), setting.Name("TLS.MinVersion"))
	}
	return nil
}

// InsecureSuites returns the names of the cipher suites that have known security issues.
func (f Files) InsecureSuites() (names []string) {
	for _, suite := range tls.InsecureCipherSuites() {
		if slices.Contains(f.CipherSuites, suite.ID) {
			names = append(names, suite.Name)
		}
	}
	return names
}
