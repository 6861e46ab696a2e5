package e2e

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/semantics"
)

// firstPage lists two objects of a collection and returns the page's token.
func (s *store) firstPage(t *testing.T, prefix string) string {
	t.Helper()
	p, err := semantics.GetList(t.Context(), s.client, s.url(prefix), url.Values{"limit": {"2"}})
	if err != nil {
		t.Fatal(err)
	}
	if p.Continue == "" || len(p.Items) != 2 {
		t.Fatalf("%d items, continue %q", len(p.Items), p.Continue)
	}
	return p.Continue
}

// behind returns the request for the page after a token.
func (s *store) behind(prefix, token string) request {
	return request{url: s.url(prefix) + "?" + url.Values{"limit": {"2"}, "continue": {token}}.Encode()}
}

// TestTamperedTokens changes every byte of a token, and truncates it everywhere: the answer is always 400, with the
// same text.
func TestTamperedTokens(t *testing.T) {
	onEach(t, func(t *testing.T, s *store) {
		s.fill(t, 500)
		token := s.firstPage(t, "/load/namespace-1/")
		s.must(t, http.StatusOK, s.behind("/load/namespace-1/", token))
		wordings := map[string]bool{}
		refused := func(prefix, token string) {
			t.Helper()
			st := s.refused(t, http.StatusBadRequest, "BadRequest", s.behind(prefix, token))
			wordings[st.Message] = true
			if st.Metadata.Continue != "" {
				t.Errorf("a token with the refusal of another one")
			}
		}
		sealed, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil {
			t.Fatalf("the token is not base64url without padding: %v", err)
		}
		for i := range sealed {
			for _, bit := range []byte{1, 0x80} {
				changed := []byte(string(sealed))
				changed[i] ^= bit
				refused("/load/namespace-1/", base64.RawURLEncoding.EncodeToString(changed))
			}
			if i > 0 {
				refused("/load/namespace-1/", base64.RawURLEncoding.EncodeToString(sealed[:i]))
			}
		}
		refused("/load/namespace-1/", token+"=")
		refused("/load/namespace-1/", base64.RawURLEncoding.EncodeToString(append(sealed, 0)))
		refused("/load/namespace-1/", strings.Repeat("A", 10_000))
		// Kubernetes' own tokens, which could name any key.
		for _, start := range []string{"x", "../../secrets/", "/../secrets"} {
			refused("/load/namespace-1/", base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil,
				`{"v":"meta.k8s.io/v1","rv":1,"start":%q}`, start)))
		}
		// Other collections, including those around it and within it.
		for _, prefix := range []string{
			"/load/namespace-2/", "/load/", "", "/", "/load/namespace-1/name-1/",
			"load/namespace-1/",
		} {
			refused(prefix, token)
		}
		if len(wordings) != 1 {
			t.Errorf("refused in %d wordings, want one that reveals nothing: %v", len(wordings), wordings)
		}
		if plain := string(sealed); strings.Contains(plain, "name-") || strings.Contains(plain, "load") {
			t.Error("the token shows its start key")
		}
	})
}

// TestTokensOutliveServers begins a list, stops or kills every server in turn, and continues the list.
func TestTokensOutliveServers(t *testing.T) {
	onEach(t, func(t *testing.T, s *store) {
		s.fill(t, 300)
		revision, all := s.walk(t, "/load/", 50, false)
		query := url.Values{"limit": {"50"}}
		var items []semantics.Item
		for page := 0; ; page++ {
			p, err := semantics.GetList(t.Context(), s.client, s.url("/load/"), query)
			if err != nil {
				t.Fatal(err)
			}
			if p.Revision != revision {
				t.Errorf("page %d at %d, want %d", page, p.Revision, revision)
			}
			items = append(items, p.Items...)
			if p.Continue == "" {
				break
			}
			query.Set("continue", p.Continue)
			server := s.servers[page%len(s.servers)]
			if page%2 == 0 {
				server.Kill()
			} else if err := server.Stop(); err != nil {
				t.Fatal(err)
			}
			server.Restart(t)
		}
		if len(items) != len(all) {
			t.Errorf("%d items, want %d", len(items), len(all))
		}
		s.compare(t, "/load/", revision, items)
	})
}
