package console

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/recent"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/session"
)

//go:embed pages/*.html
var pageFiles embed.FS

// In static/uplot are the files of uPlot 1.6.32, as released, with their license.
//
//go:embed static
var staticFiles embed.FS

// Console is the web console of one server. It implements [http.Handler].
type Console struct {
	api      api
	log      *slog.Logger
	mux      *http.ServeMux
	pages    map[string]*template.Template
	sessions *session.Table
	slots    chan struct{} // one for each page being made, except the overview and the login
	streams  chan struct{} // one for each stream of events
	unknown  chan struct{} // one for each stream that nobody has signed in for, although users are known
	sizing   chan struct{} // one for each stream of sizes
	stopping context.Context
	origins  *http.CrossOriginProtection
	writes   bool
	recent   *recent.Recorder
	counter  *counter
	// checkEvery is the time between two looks at whether the user of a stream is still signed in.
	checkEvery time.Duration

	working sync.WaitGroup // what goes on besides requests
}

// Options configures a Console.
type Options struct {
	// Logger gets what the pages do not show.
	Logger *slog.Logger
	// Writes lets users put versions back and delete keys.
	Writes bool
	// SampleEvery is the time between two samples of the metrics. Default [recent.Interval].
	SampleEvery time.Duration
	// CheckEvery is the time between two looks at whether the user of an open stream is still signed in. Default 15 s.
	CheckEvery time.Duration
}

// defaultCheck is the default of [Options.CheckEvery].
const defaultCheck = 15 * time.Second

// mostPages is how many pages are made at a time: a page may decode megabytes.
const mostPages = 4

// templates are the files of the pages.
var templates = []string{
	"overview", "browse", "object", "diff", "watch", "leases", "lease", "users", "alarms", "top", "growth",
	"change", "failure", "login",
}

// New returns a console over local, which serves the list/watch API, /status and /metrics within the process, until ctx
// ends. It records the metrics until then.
func New(ctx context.Context, local http.Handler, o Options) *Console {
	c := &Console{
		api: api{local}, log: o.Logger, writes: o.Writes, origins: http.NewCrossOriginProtection(),
		mux: http.NewServeMux(), pages: map[string]*template.Template{},
		slots: make(chan struct{}, mostPages), streams: make(chan struct{}, mostStreams), stopping: ctx,
		sizing:   make(chan struct{}, mostSizes),
		unknown:  make(chan struct{}, mostUnknown),
		sessions: session.NewTable(ctx), checkEvery: cmp.Or(o.CheckEvery, defaultCheck),
	}
	c.counter = &counter{failed: map[kindOfCount]*failure{}, api: c.api, working: &c.working}
	c.recent = recent.New(c.api.metrics, cmp.Or(o.SampleEvery, recent.Interval), o.Logger)
	c.working.Go(func() { c.recent.Run(ctx) })
	for _, name := range templates {
		layout := template.New("layout.html").Funcs(functions)
		c.pages[name] = template.Must(layout.ParseFS(pageFiles, "pages/layout.html", "pages/"+name+".html"))
	}
	for _, path := range staticPaths() {
		c.mux.HandleFunc("GET /"+path, func(w http.ResponseWriter, r *http.Request) {
			http.ServeFileFS(w, r, staticFiles, path)
		})
	}
	c.mux.HandleFunc("GET "+loginPath, c.askLogin)
	c.mux.HandleFunc("POST "+loginPath, c.login)
	c.mux.HandleFunc("POST "+logoutPath, c.logout)
	c.page(overviewPattern, c.overview)
	c.mux.HandleFunc("GET /recent.json", c.lastHour)
	c.stream("GET /live", c.live)
	c.page("GET /browse", c.browse)
	c.stream("GET /browse/sizes", c.sizes)
	c.page("GET /object", c.object)
	c.page("GET /diff", c.diff)
	c.page("GET /top", c.top)
	c.page("POST /top", c.count)
	c.page("GET /top/growth", c.growth)
	c.page("POST /top/growth", c.countGrowth)
	c.page("GET /top/report", c.topReport)
	c.stream("GET /top/progress", c.topProgress)
	c.stream("GET /top/live", c.topLive)
	c.page("GET /leases", c.leases)
	c.page("GET /lease", c.lease)
	c.page("GET /users", c.users)
	c.page("GET /alarms", c.alarms)
	c.page("GET /go", c.jump)
	c.mux.HandleFunc("GET /suggest", c.suggest)
	c.page("GET /watch", c.watch)
	c.stream("GET /watch/events", c.watchEvents)
	if o.Writes {
		c.page("GET /restore", c.askRestore)
		c.page("POST /restore", c.restore)
		c.page("GET /delete", c.askDelete)
		c.page("POST /delete", c.delete)
	}
	c.page("GET /", func(*http.Request) (view, error) {
		return view{}, &failure{
			Code: http.StatusNotFound, Message: "The console has no such page.",
		}
	})
	return c
}

// staticPaths returns the paths of the static files. Directories are not served: net/http would list them.
func staticPaths() (paths []string) {
	err := fs.WalkDir(staticFiles, "static", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		panic(err) // embedded files can be read
	}
	return paths
}

// Close waits until nothing goes on any more, after the end of New's context. It returns nil.
func (c *Console) Close() error {
	c.working.Wait()
	return nil
}

// policy lets a page load the console's own files and nothing else.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// ServeHTTP implements [http.Handler].
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if foreign(r) || c.origins.Check(r) != nil {
		http.Error(w, "the console answers only its own pages", http.StatusForbidden)
		return
	}
	r, err := c.visited(r)
	if err != nil {
		c.answer(w, r, view{}, err)
		return
	}
	c.mux.ServeHTTP(w, r)
}

// foreign reports whether a page of another origin made the request, except by a link that the user followed.
func foreign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin": // older browsers, and other programs, do not say
		return false
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}

// view is what a page shows: the name of its template and the data for it, or where to find it instead.
type view struct {
	page, title string
	data        any
	code        int    // of the answer, 0 for 200
	to          string // a redirection
	file        *download
	authEnabled bool // known to the page, although it needs no user
}

// layout is the data of every page.
type layout struct {
	Title, Page string
	At          point
	Query       string // in the search field
	User        string // "" if there is none
	SignedIn    bool   // the user has a session
	SignIn      bool   // there is a login, as another user if there is one
	Data        any
}

// ofThePast are the pages that can show a point in the past. The others show the present.
var ofThePast = []string{"browse", "object", "diff", "change", "failure"}

// overviewPattern is the pattern of the overview.
const overviewPattern = "GET /{$}"

// page serves a pattern with the page that show makes.
func (c *Console) page(pattern string, show func(*http.Request) (view, error)) {
	c.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		// A slow browser has no slot, neither for what it sends nor for what it receives.
		if err := readForm(r, mostForm); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if body := c.made(pattern, show, w, r); body != nil {
			_, _ = w.Write(body) // an error means that the browser has disconnected
		}
	})
}

// mostForm bounds a form, which has revisions and times.
const mostForm = 64 << 10

// readForm reads the form of a POST, which may have so many bytes. Other requests have no body.
func readForm(r *http.Request, most int64) error {
	if r.Method != http.MethodPost {
		if r.ContentLength != 0 {
			return errors.New("a page is for GET without a body")
		}
		return nil
	}
	r.Body = http.MaxBytesReader(nil, r.Body, most)
	if err := r.ParseForm(); err != nil {
		return fmt.Errorf("the form cannot be read: %w", err)
	}
	return nil
}

// made makes a page in one of the slots, and writes its header. It returns nil if there is no page.
func (c *Console) made(pattern string, show func(*http.Request) (view, error), w http.ResponseWriter,
	r *http.Request,
) []byte {
	if pattern != overviewPattern { // it shows what is wrong while other pages wait for the database
		select {
		case c.slots <- struct{}{}:
			defer func() { <-c.slots }()
		case <-r.Context().Done():
			return nil
		}
	}
	v, err := show(r)
	return c.rendered(w, r, v, err)
}

// answer sends a page without a slot.
func (c *Console) answer(w http.ResponseWriter, r *http.Request, v view, err error) {
	if body := c.rendered(w, r, v, err); body != nil {
		_, _ = w.Write(body) // an error means that the browser has disconnected
	}
}

// rendered returns a page, or that of an error, after its header is written. It returns nil if there is no page.
func (c *Console) rendered(w http.ResponseWriter, r *http.Request, v view, err error) []byte {
	if err != nil {
		v = c.failed(w, r, err)
	}
	visit := visitOf(r)
	c.settle(visit, false)
	if v.to != "" {
		http.Redirect(w, r, v.to, http.StatusSeeOther)
		return nil
	}
	if v.file != nil {
		h := w.Header()
		h.Set("Content-Disposition", `attachment; filename="`+v.file.name+`"`)
		h.Set("Content-Security-Policy", v.file.policy)
		h.Set("Content-Type", "text/html; charset=utf-8")
		return v.file.body
	}
	at, err := pointOf(r)
	switch {
	case !slices.Contains(ofThePast, v.page):
		at = point{}
	case err != nil:
		at.Text = r.URL.Query().Get("at") // to be corrected
	}
	data := layout{
		Title: v.title, Page: v.page, At: at, Query: queryOf(r), User: visit.user(), SignedIn: visit.signedIn(),
		SignIn: visit.maySignIn(v.authEnabled), Data: v.data,
	}
	var body bytes.Buffer
	if err := c.pages[v.page].Execute(&body, data); err != nil {
		c.log.Error("console: a page cannot be made", "page", v.page, "error", err)
		http.Error(w, "the page cannot be made: see the server's log", http.StatusInternalServerError)
		return nil
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(cmp.Or(v.code, http.StatusOK))
	return body.Bytes()
}

// failed returns the page for an error, or that of the login.
func (c *Console) failed(w http.ResponseWriter, r *http.Request, err error) view {
	f := c.asFailure(r, err)
	if f.Code == http.StatusUnauthorized && navigates(r) && r.Header.Get("Authorization") == "" {
		return loginFor(r)
	}
	f.challenge(w, r)
	return view{page: "failure", title: http.StatusText(f.Code), data: f, code: f.Code}
}

// asFailure returns an error as people may see it, and logs what they may not. A session that the API refuses ends.
func (c *Console) asFailure(r *http.Request, err error) *failure {
	f, ok := errors.AsType[*failure](err)
	c.settle(visitOf(r), ok && f.Code == http.StatusUnauthorized)
	if !ok && r.Context().Err() != nil {
		return &failure{Code: http.StatusServiceUnavailable, Message: "The browser has disconnected."}
	}
	if !ok {
		c.log.Error("console: the server's API gave no answer", "path", r.URL.Path, "error", err)
		f = &failure{Code: http.StatusInternalServerError, Message: "The server's log says what went wrong."}
	}
	return f
}
