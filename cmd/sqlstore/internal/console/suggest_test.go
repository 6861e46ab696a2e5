package console_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// suggestion is an element of the answer.
type suggestion struct{ Text, What, Href string }

func (s *served) suggest(q string, headers ...string) (all []suggestion) {
	s.t.Helper()
	p := s.get("/suggest?q="+url.QueryEscape(q), headers...).want(200)
	if err := json.Unmarshal([]byte(p.body), &all); err != nil {
		s.t.Fatal(err)
	}
	return all
}

// The search field suggests pages and kinds by a part of their name, prefixes and keys by their beginning.
func TestSuggest(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.put(web, configMap(3))
	s.put("/registry/apps.example/things/a", "x")
	s.put("other<\u202e", "x")
	for q, want := range map[string][]suggestion{
		"":            {{"Overview", "page", "/"}, {"/registry/", "prefix", "/browse?prefix=%2Fregistry%2F"}},
		"OVER":        {{"Overview", "page", "/"}},
		"maps":        {{"configmaps", "kind", "/browse?prefix=%2Fregistry%2Fconfigmaps%2F"}},
		"ConfigMap":   {{"configmaps", "kind", "/browse?prefix=%2Fregistry%2Fconfigmaps%2F"}},
		"/registry/c": {{"/registry/configmaps/", "prefix", "/browse?prefix=%2Fregistry%2Fconfigmaps%2F"}},
		web[:18]:      {{"/registry/configmaps/", "prefix", "/browse?prefix=%2Fregistry%2Fconfigmaps%2F"}},
		web:           {{web, "key", "/object?key=" + url.QueryEscape(web)}},
		"oth":         {{`other<\u202e`, "key", "/object?key=other%3C%E2%80%AE"}},
	} {
		got := s.suggest(q)
		for _, w := range want {
			if !slices.Contains(got, w) {
				t.Errorf("%q: %+v lacks %+v", q, got, w)
			}
		}
		if q != "" && len(got) > len(want) {
			t.Errorf("%q: %+v, want only %+v", q, got, want)
		}
	}
	early := s.put("a/1", "x")
	s.put("a/2", "x")
	p := s.get(fmt.Sprintf("/suggest?q=a/&at=%d", early)).want(200, fmt.Sprintf(`/object?at=%d`, early))
	p.without("a/2")
	s.get("/suggest?q=a/&at=yesterday").want(400)
	if got := s.suggest("none/such"); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	s.get("/suggest?q=o", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: cors").want(403)
	if !strings.Contains(s.get("/").body, "/static/search.js") {
		t.Error("pages do not load the script")
	}
}
