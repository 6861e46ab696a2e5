package kine

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/go-sql-driver/mysql"
)

// useFiles makes TLS use the files that the parameters sslrootcert, sslcert and sslkey name. Their names are those of
// Postgres: the driver of MySQL has none, and kine takes the files from flags.
func useFiles(config *mysql.Config) error {
	files := map[string]string{}
	for _, name := range []string{"sslrootcert", "sslcert", "sslkey"} {
		if file, ok := config.Params[name]; ok {
			files[name] = file
			delete(config.Params, name) // the driver would set a variable of this name
		}
	}
	if len(files) == 0 {
		return nil
	}
	if config.TLSConfig != "" && config.TLSConfig != "true" {
		return fmt.Errorf("certificates need tls=true, not tls=%s", config.TLSConfig)
	}
	config.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if root, ok := files["sslrootcert"]; ok {
		pem, err := os.ReadFile(root)
		if err != nil {
			return err
		}
		config.TLS.RootCAs = x509.NewCertPool()
		if !config.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("%s has no certificate in PEM", root)
		}
	}
	if (files["sslcert"] == "") != (files["sslkey"] == "") {
		return errors.New("sslcert and sslkey belong together")
	}
	if files["sslcert"] != "" {
		pair, err := tls.LoadX509KeyPair(files["sslcert"], files["sslkey"])
		if err != nil {
			return err
		}
		config.TLS.Certificates = []tls.Certificate{pair}
	}
	return nil
}
