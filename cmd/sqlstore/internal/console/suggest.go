package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	// mostSuggestions is how many keys, and how many kinds, the search field suggests.
	mostSuggestions = 10
	// registry is where kube-apiserver has its objects, by default.
	registry = "/registry/"
)

// suggestion is where the search field leads to.
type suggestion struct {
	Text string `json:"text"` // for people
	What string `json:"what"` // page, kind, prefix or key
	Href string `json:"href"`
	Keys int64  `json:"keys,omitempty"` // of a prefix or kind
}

// places are the pages that the search field suggests.
var places = []suggestion{
	{Text: "Overview", Href: "/"},
	{Text: "Browse", Href: "/browse"},
	{Text: "Watch", Href: "/watch"},
	{Text: "Top", Href: "/top"},
	{Text: "Leases", Href: "/leases"},
	{Text: "Users", Href: "/users"},
	{Text: "Alarms", Href: "/alarms"},
}

// suggest answers what is typed into the search field: pages and kinds whose names contain it, and what begins with it.
func (c *Console) suggest(w http.ResponseWriter, r *http.Request) {
	q := strings.TrimSpace(r.URL.Query().Get("q"))
	at, err := pointOf(r)
	if err != nil { // the page that Enter leads to says what is wrong
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	all := []suggestion{}
	for _, p := range places {
		if strings.Contains(strings.ToLower(p.Text), strings.ToLower(q)) {
			p.What = "page"
			all = append(all, p)
		}
	}
	// Errors, such as a missing right, leave their part out: the page that Enter leads to says why.
	if q != "" && !strings.Contains(q, "/") {
		all = append(all, c.kinds(r, q, at)...)
	}
	if found, err := c.level(r, q, at, mostSuggestions); err == nil {
		for i := range found {
			all = append(all, found[i].suggested(at))
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(all) // an error means that the browser has disconnected
}

// named returns the page or kind with a name, nil if there is none.
func (c *Console) named(r *http.Request, text string, at point) *suggestion {
	if text == "" || strings.Contains(text, "/") {
		return nil
	}
	for _, s := range append(slices.Clone(places), c.kinds(r, text, at)...) {
		if strings.EqualFold(s.Text, text) {
			return &s
		}
	}
	return nil
}

// kinds returns the prefixes of kinds of Kubernetes' objects, and of groups of custom ones, whose names contain a text.
func (c *Console) kinds(r *http.Request, text string, at point) (all []suggestion) {
	found, err := c.level(r, registry, at, 0)
	if err != nil {
		return nil
	}
	for i := range found {
		e := &found[i]
		if len(all) < mostSuggestions && e.IsPrefix && strings.Contains(e.Name, strings.ToLower(text)) {
			s := e.suggested(at)
			s.What, s.Text = "kind", name(strings.TrimSuffix(e.Name, "/"))
			all = append(all, s)
		}
	}
	return all
}

// suggested returns the suggestion that leads to an entry at a point.
func (e *entry) suggested(at point) suggestion {
	if e.IsPrefix {
		to := link("/browse", "prefix", e.Full, "at", at.Text)
		return suggestion{Text: short(e.Full), What: "prefix", Href: to, Keys: e.Keys}
	}
	return suggestion{Text: short(e.Full), What: "key", Href: link("/object", "key", e.Full, "at", at.Text)}
}

// level returns the first entries below a prefix at a point, all that one answer has if limit is 0.
func (c *Console) level(r *http.Request, prefix string, at point, limit int) ([]entry, error) {
	ask := url.Values{}
	at.list(ask)
	if limit > 0 {
		ask.Set("limit", strconv.Itoa(limit))
	}
	var l level
	if err := c.api.get(r, treePath+url.PathEscape(prefix), ask, &l); err != nil {
		return nil, err
	}
	return l.entries(prefix), nil
}
