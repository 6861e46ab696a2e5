package listen

import (
	"crypto/sha256"
	"crypto/tls"
	"slices"
)

// tickets let clients resume TLS sessions. The keys belong to the process and not to a handshake's configuration, which
// is a new one whenever the files change, and crypto/tls replaces them every day. A session ends when the certificate
// or the clients' authorities change: resuming it would skip the check against the new ones. [Files.clientCheck] runs
// in any case.
type tickets struct{ keys *tls.Config }

func newTickets() tickets { return tickets{&tls.Config{MinVersion: tls.VersionTLS12}} }

// use makes handshakes with c resume sessions that began with the same certificate and authorities.
func (t tickets) use(c *contents) {
	c.config.WrapSession = func(state tls.ConnectionState, session *tls.SessionState) ([]byte, error) {
		session.Extra = append(session.Extra, c.origin[:])
		return t.keys.EncryptTicket(state, session)
	}
	c.config.UnwrapSession = func(ticket []byte, state tls.ConnectionState) (*tls.SessionState, error) {
		session, err := t.keys.DecryptTicket(ticket, state)
		if err != nil || session == nil || !slices.ContainsFunc(session.Extra, func(extra []byte) bool {
			return string(extra) == string(c.origin[:])
		}) {
			return nil, err // a full handshake follows
		}
		return session, nil
	}
}

// originOf identifies a certificate chain and the clients' authorities.
func originOf(chain [][]byte, authorities []byte) [sha256.Size]byte {
	sum := sha256.New()
	for _, der := range chain {
		sum.Write(der) // DER contains its own length
	}
	sum.Write(authorities)
	return [sha256.Size]byte(sum.Sum(nil))
}
