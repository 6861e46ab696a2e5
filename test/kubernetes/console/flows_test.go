package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// search types into the search field, which it goes to by the keyboard.
func (b *browser) search(text string) {
	b.Helper()
	b.run(chromedp.KeyEvent("k", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	b.await(`document.activeElement.id === "q"`)
	b.run(chromedp.KeyEvent(text))
}

// testFind finds a key by the keyboard alone, and goes from its versions to what one changed.
func testFind(t *testing.T, s *site) {
	b := open(t, s.console, devices[0])
	b.visit("/")
	b.search(web + kb.Enter)
	b.await(`document.title.startsWith("` + web + `")`)
	if text := b.text("main"); !strings.Contains(text, `data.speed: "3" → "5"`) {
		t.Errorf("the versions do not say what changed: %s", text)
	}
	b.run(chromedp.Click(`//table//a[starts-with(., "Compare")]`))
	b.await(`document.querySelector(".added") !== null`)
	if text := b.text(".added"); !strings.Contains(text, `speed: "5"`) {
		t.Errorf("added: %q", text)
	}
	b.clean("finding a key")
}

// testSuggestions goes to a kind by a part of its name.
func testSuggestions(t *testing.T, s *site) {
	for _, on := range devices {
		b := open(t, s.console, on)
		b.visit("/watch")
		choose := func() {
			b.search("configm")
			b.await(`document.querySelectorAll("#suggestions[data-for=configm] li").length === 1`)
			b.run(chromedp.KeyEvent(kb.ArrowDown))
			b.await(`document.querySelector("#suggestions [aria-selected=true]") !== null`)
		}
		choose()
		b.fits("suggestions")
		b.accessible("suggestions")
		b.picture("suggestions-" + on.name) // takes the focus from the field, which closes the list
		choose()
		b.run(chromedp.KeyEvent(kb.Enter))
		b.await(`document.title.startsWith("/registry/configmaps/")`)
		b.clean("suggestions")
	}
}

// testHidden shows a Secret's values only when they are asked for.
func testHidden(t *testing.T, s *site) {
	b := open(t, s.console, devices[0])
	const value = "bm90LWZvci10aGUtcGFnZQ==" // not-for-the-page
	b.visit(pages["secret"])
	if text := eval[string](b, "document.documentElement.outerHTML"); strings.Contains(text, value) {
		t.Error("the page has the value of a Secret")
	}
	b.run(chromedp.Click(`//a[.="Show them"]`))
	b.await(`document.querySelector("pre").innerText.includes("` + value + `")`)
	b.clean("showing a Secret")
}

// testWatch watches changes, pauses meanwhile, and misses none.
func testWatch(t *testing.T, s *site) {
	b := open(t, s.console, devices[0])
	patch := func(speed int) {
		s.cluster.Kubectl(t, nil, "patch", "configmap", "web", "--patch", fmt.Sprintf(`{"data":{"speed":"%d"}}`, speed))
	}
	rows := func(n int) {
		t.Helper()
		b.await(fmt.Sprintf("document.querySelectorAll('#changes tbody tr').length === %d", n))
	}
	b.visit("/watch?prefix=/registry/configmaps/default/")
	patch(10)
	rows(1)
	if text := b.text("#changes tbody"); !strings.Contains(text, web) || !strings.Contains(text, "updated") ||
		!strings.Contains(text, "v1 ConfigMap") {
		t.Errorf("a change: %q", text)
	}
	b.run(chromedp.Click("#pause"))
	patch(11)
	patch(12)
	rows(1)
	b.run(chromedp.Click("#pause"))
	rows(3)
	b.run(chromedp.Click("#filter"), chromedp.KeyEvent("nothing"))
	b.await("[...document.querySelectorAll('#changes tbody tr')].every((row) => row.hidden)")
	b.picture("watch-filtered")
	b.clean("watching")
}

// testLive shows a new version of an object without being asked.
func testLive(t *testing.T, s *site) {
	b := open(t, s.console, devices[0])
	b.visit(pages["object"])
	for speed := 20; speed < 23; speed++ {
		s.cluster.Kubectl(t, nil, "patch", "configmap", "web", "--patch", fmt.Sprintf(`{"data":{"speed":"%d"}}`, speed))
		b.await(fmt.Sprintf(`document.querySelector("pre").innerText.includes('speed: "%d"')`, speed))
	}
	b.clean("a live object")
}

// maps is the row of ConfigMaps in a table of kinds.
const maps = `[...document.querySelectorAll("main tbody tr")].find((row) => row.innerText.startsWith("v1 ConfigMap"))`

// testTop counts what fills the store, and looks on at what changes.
func testTop(t *testing.T, s *site) {
	for _, on := range devices {
		b := open(t, s.console, on)
		b.visit("/top")
		eval[bool](b, "window.before = true")
		b.run(chromedp.Click("main form button"))
		b.await(`!window.before && document.readyState === "complete" && document.querySelector("main table") !== null`)
		b.visit("/top?by=kind")
		b.await(`document.querySelector("main table")?.innerText.includes("rbac.authorization.k8s.io/v1 ClusterRole")`)
		b.fits("top")
		b.accessible("top")
		b.picture("top-counted-" + on.name)
		b.visit("/top?by=field&kind=rbac.authorization.k8s.io/v1+ClusterRole")
		b.await(`document.querySelector("main table")?.innerText.includes("metadata.name")`)
		b.fits("the fields")
		b.accessible("the fields")
		b.picture("top-fields-" + on.name)
		// What changes in a row leaves the focus where it is.
		b.visit("/top?by=kind&sort=keys")
		b.await(maps + ".querySelector('a').focus(), true")
		before := eval[string](b, maps+".cells[1].innerText")
		s.cluster.Kubectl(t, nil, "create", "configmap", "live-"+on.name)
		b.await(fmt.Sprintf("%s.cells[1].innerText !== %q", maps, before))
		b.await("document.activeElement === " + maps + ".querySelector('a')")
		b.clean("top")
	}
}

// testPutBack puts the oldest version back, and kubectl sees it.
func testPutBack(t *testing.T, s *site) {
	b := open(t, s.console, devices[0])
	b.visit(pages["object"])
	b.run(chromedp.Click(`(//table//a[starts-with(., "Put back")])[last()]`))
	b.await(`document.querySelector("main form") !== null`)
	b.run(chromedp.Click("main form button"))
	b.await(`location.pathname === "/object"`)
	if speed := s.cluster.Kubectl(t, nil, "get", "configmap", "web", "-o", "jsonpath={.data.speed}"); speed != "3" {
		t.Errorf("put back to speed %s, want 3", speed)
	}
	b.clean("putting a version back")
}

// testDown looks on while the server is killed and comes back: pages say so, and go on.
func testDown(t *testing.T, s *site) {
	b := open(t, s.console, devices[0])
	b.visit("/watch")
	b.await(`performance.getEntriesByType("resource").length > 0`)
	s.store.Kill()
	b.await(`!document.getElementById("stale").hidden`)
	b.picture("watch-stale")
	s.store.Restart(t)
	b.await(`document.getElementById("stale").hidden`)
	s.cluster.Kubectl(t, nil, "create", "configmap", "after")
	b.await(`document.getElementById("changes").innerText.includes("/registry/configmaps/default/after")`)
	b.expect("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_SOCKET_NOT_CONNECTED", "ERR_EMPTY_RESPONSE",
		"ERR_INCOMPLETE_CHUNKED_ENCODING", http.StatusText(http.StatusServiceUnavailable))
	b.clean("a server that was killed")
}
