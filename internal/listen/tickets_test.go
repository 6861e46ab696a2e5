package listen_test

import (
	"crypto/tls"
	"net/http"
	"testing"

	"github.com/sqlstore/sqlstore/internal/listen"
	"github.com/sqlstore/sqlstore/internal/testing/authority"
)

// Clients resume sessions, but not beyond a change of what they were checked against.
func TestResumedSessions(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			a, other := authority.New(t), authority.New(t)
			s := newTLSServer(t, a, withClients(a, func(*listen.Files, string) {}))
			client := withPair(a.Pair("client"))
			client.MaxVersion = version
			want := func(why, name string, resumed bool) {
				t.Helper()
				state, err := s.connect(a, client)
				if err != nil {
					t.Fatalf("%s: %v", why, err)
				}
				if got := state.PeerCertificates[0].Subject.CommonName; got != name || state.DidResume != resumed {
					t.Errorf("%s: %q, resumed: %v; want %q, %v", why, got, state.DidResume, name, resumed)
				}
			}
			want("the first connection", "first", false)
			want("the second", "first", true)
			want("the third", "first", true)
			if err := s.certs.SetFiles(s.files); err != nil {
				t.Fatal(err)
			}
			want("after the same files were read", "first", true)
			s.install(a.Issue("second"))
			want("after a new certificate", "second", false)
			want("the next one", "second", true)
			authority.Write(t, s.files.TrustedCA, append(a.PEM(), other.PEM()...))
			want("after another authority", "second", false)
			want("the next one", "second", true)
			authority.Write(t, s.files.TrustedCA, other.PEM())
			if _, err := s.connect(a, client); err == nil {
				t.Error("a client whose authority is no longer trusted resumed its session")
			}
		})
	}
}

// A listener's connections share what resuming needs.
func TestSplitResumes(t *testing.T) {
	a := authority.New(t)
	b := serveBoth(t, tlsConfig(t, a, false))
	transport := &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: a.Pool(), ClientSessionCache: tls.NewLRUClientSessionCache(1),
	}}
	for _, resumed := range []bool{false, true} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+b.addr, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		transport.CloseIdleConnections()
		if resp.TLS.DidResume != resumed {
			t.Errorf("resumed: %v, want %v", resp.TLS.DidResume, resumed)
		}
	}
}
