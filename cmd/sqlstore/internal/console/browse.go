package console

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	treePath    = "/v1/tree/"
	objectsPath = "/v1/objects/"
)

// level is an answer of the tree of keys.
type level struct {
	Metadata struct {
		ResourceVersion int64  `json:"resourceVersion,string"`
		Continue        string `json:"continue"`
		Keys            int64  `json:"keys"`
	} `json:"metadata"`
	Items []struct {
		Prefix       string    `json:"prefix"`
		PrefixBase64 []byte    `json:"prefixBase64"`
		Keys         int64     `json:"keys"`
		Metadata     *metadata `json:"metadata"`
	} `json:"items"`
}

// entry is a line of the page.
type entry struct {
	Name     string // below the prefix
	Full     string
	IsPrefix bool
	Keys     int64
	Revision int64
}

// browsed is the data of the page.
type browsed struct {
	Prefix   string
	Trail    []entry // the prefixes above, and the prefix
	Entries  []entry
	HasKeys  bool // among the entries
	Keys     int64
	Revision int64
	Next     string // the token of the next page
	Paged    bool   // not the first page
	Watched  bool   // the API can watch all keys that begin with the prefix
	Sizes    string // the address of the stream of the sizes of the entries, "" if there is none
	Unasked  bool   // the page may open it by itself
}

// browse shows one level of the tree of keys.
func (c *Console) browse(r *http.Request) (view, error) {
	at, err := pointOf(r)
	if err != nil {
		return view{}, err
	}
	q := r.URL.Query()
	prefix, token := q.Get("prefix"), q.Get("continue")
	ask := pageOf(0, token)
	if token == "" {
		at.list(ask)
	}
	var l level
	if err := c.api.get(r, treePath+url.PathEscape(prefix), ask, &l); err != nil {
		return view{}, err
	}
	b := browsed{
		Prefix: prefix, Trail: trail(prefix), Keys: l.Metadata.Keys, Revision: l.Metadata.ResourceVersion,
		Next: l.Metadata.Continue, Paged: token != "",
		Watched: at.Text == "" && listed(prefix),
	}
	b.Entries = l.entries(prefix)
	if listed(prefix) && len(b.Entries) > 0 {
		revision := strconv.FormatInt(b.Revision, 10)
		b.Sizes = link("/browse/sizes", "prefix", prefix, "revision", revision, "continue", token)
		b.Unasked = b.Keys <= sizedUnasked
	}
	b.HasKeys = slices.ContainsFunc(b.Entries, func(e entry) bool { return !e.IsPrefix })
	title := "All keys"
	if prefix != "" {
		title = prefix
	}
	return view{page: "browse", title: title, data: b}, nil
}

// pageOf returns the parameters of the API for a page of a level: the one with a token, or the first one, at a revision
// unless it is 0.
func pageOf(revision int64, token string) url.Values {
	ask := url.Values{"limit": {"200"}}
	switch {
	case token != "":
		ask.Set("continue", token)
	case revision > 0:
		ask.Set("resourceVersion", strconv.FormatInt(revision, 10))
		ask.Set("resourceVersionMatch", "Exact")
	}
	return ask
}

// entries returns the entries of the level below a prefix.
func (l *level) entries(prefix string) (all []entry) {
	for i := range l.Items {
		item := &l.Items[i]
		e := entry{IsPrefix: item.Metadata == nil, Full: item.Prefix, Keys: item.Keys}
		if item.PrefixBase64 != nil {
			e.Full = string(item.PrefixBase64)
		}
		if m := item.Metadata; m != nil {
			e.Full, e.Keys, e.Revision = m.key(), 1, m.ResourceVersion
		}
		if e.Name = e.Full[strings.LastIndexByte(prefix, '/')+1:]; e.Name == "" {
			e.Name = e.Full // a key that ends in a slash
		}
		all = append(all, e)
	}
	return all
}

// trail returns the prefixes that lead to a prefix or key, which is the last one.
func trail(to string) (all []entry) {
	for from := 0; from < len(to); {
		end, name := len(to), from
		if from == 0 && to[0] == '/' { // as a level of the tree has it
			name = 1
		}
		if i := strings.IndexByte(to[name:], '/'); i >= 0 {
			end = name + i + 1
		}
		all = append(all, entry{Name: to[from:end], Full: to[:end], IsPrefix: to[end-1] == '/'})
		from = end
	}
	return all
}

// queryOf returns the text for the search field: what the page shows, if a field can hold it.
func queryOf(r *http.Request) string {
	q := r.URL.Query()
	for _, name := range []string{"q", "prefix", "key"} {
		if text := q.Get(name); text != "" {
			if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
				return ""
			}
			return text
		}
	}
	return ""
}

// jump leads from the search field to a key if it exists, or else to the page or kind with that name, and otherwise to
// what begins with the text.
func (c *Console) jump(r *http.Request) (view, error) {
	at, err := pointOf(r)
	if err != nil {
		return view{}, err
	}
	text := r.URL.Query().Get("q")
	to := url.Values{"prefix": {text}}
	page := "/browse"
	if text != "" && !strings.HasSuffix(text, "/") {
		ask := url.Values{}
		at.list(ask)
		var o item
		err := c.api.get(r, objectsPath+url.PathEscape(text), ask, &o)
		if err == nil {
			page, to = "/object", url.Values{"key": {text}}
		} else if s := c.named(r, text, at); s != nil { // also for users who may not read such a key
			return view{to: s.Href}, nil
		} else if !is(err, http.StatusNotFound) {
			return view{}, err
		}
	}
	if at.Text != "" {
		to.Set("at", at.Text)
	}
	return view{to: page + "?" + to.Encode()}, nil
}
