package pgserver

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
)

// onlyCertified is a pg_hba.conf with which everyone but the superuser needs TLS and a client's certificate.
const onlyCertified = `host all ` + superuser + ` all scram-sha-256
hostssl all all all scram-sha-256 clientcert=verify-ca
`

// ServeTLS restarts the server with a PEM certificate and its key, see [Server.Host]. Clients may use TLS then. If
// clients, the PEM certificate of an authority, is not empty, everyone but the superuser must use TLS, and show a
// certificate of that authority.
func (s *Server) ServeTLS(cert, key, clients []byte) error {
	files := map[string][]byte{"server.crt": cert, "server.key": key}
	settings := []string{"ssl = on"}
	if len(clients) > 0 {
		files["clients.crt"], files["pg_hba.conf"] = clients, []byte(onlyCertified)
		settings = append(settings, "ssl_ca_file = 'clients.crt'")
	}
	var errs []error
	for name, content := range files {
		// The server writes its own files, wherever it runs; the key must be readable by its user only.
		errs = append(errs, execute(s.DSN(), fmt.Sprintf("COPY (SELECT '%s') TO PROGRAM 'umask 077 && base64 -d > %s'",
			base64.StdEncoding.EncodeToString(content), name)))
	}
	for _, setting := range settings {
		errs = append(errs, execute(s.DSN(), "ALTER SYSTEM SET "+setting))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return s.Restart()
}

// Host returns the host of [Server.Addr], for certificates; nil if that is a name.
func (s *Server) Host() net.IP {
	host, _, _ := net.SplitHostPort(s.Addr())
	return net.ParseIP(host)
}
