package console

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/sqlstore/sqlstore/internal/testing/env"
)

//go:embed testdata/axe/axe.min.js
var axe string

// pageTimeout limits what a test does on one page.
const pageTimeout = 2 * time.Minute

// browser is a window of Chromium.
type browser struct {
	*testing.T
	ctx  context.Context
	host string // of the console

	mu       sync.Mutex
	problems []string
}

// device is how a page is shown.
type device struct {
	name          string
	width, height int64
	dark          bool
}

var devices = []device{
	{name: "light", width: 1280, height: 800},
	{name: "dark", width: 1280, height: 800, dark: true},
	{name: "phone", width: 390, height: 844},
}

// open starts a Chromium for a console until the test ends.
func open(t *testing.T, console string, on device) *browser {
	t.Helper()
	u, err := url.Parse(console)
	if err != nil {
		t.Fatal(err)
	}
	allocated, cancel := chromedp.NewExecAllocator(context.Background(),
		append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox)...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocated)
	t.Cleanup(cancel)
	b := &browser{T: t, ctx: ctx, host: u.Host}
	scheme := "light"
	if on.dark {
		scheme = "dark"
	}
	// The first call starts the browser, which lives as long as its context.
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		t.Fatalf("Chromium does not start ('apt-get install chromium' installs it): %v", err)
	}
	b.run(enable(network.Enable, network.EnableParams{}), enable(log.Enable, cdp.Empty{}),
		enable(runtime.Enable, cdp.Empty{}), enable(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		}), chromedp.EmulateViewport(on.width, on.height))
	return b
}

// enable is a command of Chromium's protocol.
func enable[P any](command cdp.Command[P, cdp.Empty], with P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, with)
		return err
	})
}

// listen records what a page must not do.
func (b *browser) listen(event any) {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.problem("an exception: %v", e.ExceptionDetails)
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			b.problem("%s: %s", e.Entry.Level, e.Entry.Text)
		}
	case *network.EventRequestWillBeSent:
		u, err := url.Parse(e.Request.URL)
		if err != nil || u.Host != b.host && u.Scheme != "data" && u.Scheme != "about" {
			b.problem("a request to %s", e.Request.URL)
		}
	}
}

func (b *browser) problem(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = append(b.problems, fmt.Sprintf(format, args...))
}

// clean fails the test for what the pages did wrong since the last call.
func (b *browser) clean(where string) {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.problems {
		b.Errorf("%s: %s", where, p)
	}
	b.problems = nil
}

// run does something on the page.
func (b *browser) run(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	do(b, chromedp.Steps(actions...))
}

func do[T any](b *browser, action chromedp.Action[T]) T {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, pageTimeout)
	defer cancel()
	out, err := chromedp.Run(ctx, action)
	if err != nil {
		b.clean("before the failure")
		b.Fatal(err)
	}
	return out
}

// eval returns the value of a JavaScript expression, which may be a promise.
func eval[T any](b *browser, expression string) T {
	b.Helper()
	return do(b, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// visit opens a path of the console.
func (b *browser) visit(path string) {
	b.Helper()
	b.run(chromedp.Navigate("http://" + b.host + path))
}

// await waits until a JavaScript expression is true, also on the page that a step leads to.
func (b *browser) await(expression string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, pageTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		found, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression))
		if err == nil && found {
			return
		}
		select {
		case <-tick.C: // an error is that of a page that is being replaced
		case <-ctx.Done():
			b.clean("before the failure")
			b.Fatalf("never true: %s, at %s (%v)", expression, eval[string](b, "location.href"), err)
		}
	}
}

// text returns the text that an element shows.
func (b *browser) text(selector string) string {
	b.Helper()
	return eval[string](b, fmt.Sprintf("document.querySelector(%q).innerText", selector))
}

// picture keeps a picture of the page, if the environment names a directory for them.
func (b *browser) picture(name string) {
	b.Helper()
	dir := env.Keep.Text()
	if dir == "" {
		return
	}
	png := do(b, chromedp.FullScreenshot(100))
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// accessible runs axe-core on the page.
func (b *browser) accessible(where string) {
	b.Helper()
	b.run(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, runtime.Evaluate, runtime.EvaluateParams{Expression: axe})
		return err
	}))
	found := eval[string](b, `axe.run().then((r) => JSON.stringify(r.violations.map((v) => ({id: v.id, help: v.help,
		nodes: v.nodes.map((n) => n.html + " " + n.failureSummary)}))))`)
	var violations []struct {
		ID, Help string
		Nodes    []string
	}
	if err := json.Unmarshal([]byte(found), &violations); err != nil {
		b.Fatal(err)
	}
	for _, v := range violations {
		b.Errorf("%s: %s: %s\n\t%s", where, v.ID, v.Help, strings.Join(v.Nodes[:min(3, len(v.Nodes))], "\n\t"))
	}
}

// fits checks that the page is not wider than the window.
func (b *browser) fits(where string) {
	b.Helper()
	wider := eval[string](b, `(() => {
		const d = document.documentElement;
		if (d.scrollWidth <= d.clientWidth) return "";
		const out = [...document.querySelectorAll("main *, header *")].filter((x) =>
			x.getBoundingClientRect().right > d.clientWidth + 1 && !x.closest(".wide, pre"));
		const names = out.slice(0, 3).map((x) => x.outerHTML.slice(0, 120));
		return d.scrollWidth + " of " + d.clientWidth + ": " + names.join(" ");
	})()`)
	if wider != "" {
		b.Errorf("%s: wider than the window: %s", where, wider)
	}
}

// expect forgets errors with one of these texts, which the test has caused.
func (b *browser) expect(texts ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = slices.DeleteFunc(b.problems, func(p string) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(p, text) })
	})
}
