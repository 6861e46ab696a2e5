package telemetry

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sqlstore/sqlstore/status"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// linked is what the page at / leads to, and what that shows.
type linked struct{ To, Shows string }

// links are on every page.
var links = []linked{
	{"/status", "all of this as JSON"},
	{"/readyz?verbose", "the checks"},
	{"/metrics", "metrics for Prometheus"},
	{"/version", "the version of etcd's API"},
}

// handlePage serves / and nothing below it: what this server is, for people. Browsers get a page, others text.
// It leads to the console, if there is one.
func handlePage(mux *http.ServeMux, from Conditions, console []string) {
	links := slices.Clone(links)
	for _, url := range console {
		if strings.HasPrefix(url, "http") { // no browser reaches a unix socket
			links = append(links, linked{url, "the console, on the server's machine"})
		}
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
		defer cancel()
		report := from.FullStatusContext(ctx)
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		if !strings.Contains(r.Header.Get("Accept"), "text/html") {
			h.Set("Content-Type", "text/plain; charset=utf-8")
			write(w, plainPage(&report, links))
			return
		}
		var body bytes.Buffer
		if err := page.Execute(&body, map[string]any{"Report": &report, "Links": links}); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
		write(w, body.String())
	})
}

// plainPage is the page as text.
func plainPage(r *status.Report, links []linked) string {
	var out strings.Builder
	fmt.Fprintf(&out, "sqlstore %s, member %s: etcd API %s on %s\n", r.Version, r.Name, r.EtcdVersion, r.Datastore)
	fmt.Fprintf(&out, "revision %d, compacted %d", r.Revision, r.Compacted)
	if r.Size != nil {
		fmt.Fprintf(&out, ", %s", r.Size)
	}
	if e := r.LastError; e != nil {
		fmt.Fprintf(&out, "\nlast database error, at %s: %s", e.Time.Format(time.RFC3339), oneLine(e.Message))
	}
	out.WriteString("\n\n")
	out.WriteString(lines(r))
	out.WriteString("\n")
	for _, l := range links {
		fmt.Fprintf(&out, "%-16s %s\n", l.To, l.Shows)
	}
	return out.String()
}
