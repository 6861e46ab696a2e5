package hostile

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if !obeyOrder() {
		os.Exit(m.Run())
	}
}

// A well-behaved client is still served while others abuse the server, and afterwards the server uses no more resources
// than before.
func TestAbuse(t *testing.T) {
	for _, a := range abuses() {
		t.Run(a.name, func(t *testing.T) { withstand(t, a, false) })
	}
}

// The same over TLS; the short round runs only the abuses that TLS changes.
func TestAbuseOverTLS(t *testing.T) {
	full := roundFromEnv().full
	for _, a := range abuses() {
		if full || a.secure {
			t.Run(a.name, func(t *testing.T) { withstand(t, a, true) })
		}
	}
}
