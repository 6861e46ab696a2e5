package console

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
)

// enableAuth enables authentication on a store, with the user root.
func enableAuth(t *testing.T, url string) {
	t.Helper()
	for _, call := range []struct{ path, body string }{
		{"/v3/auth/user/add", `{"name":"root","password":"secret"}`},
		{"/v3/auth/user/grant", `{"user":"root","role":"root"}`},
		{"/v3/auth/enable", `{}`},
	} {
		answer, err := http.Post(url+call.path, "application/json", strings.NewReader(call.body))
		if err != nil {
			t.Fatal(err)
		}
		if _ = answer.Body.Close(); answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", call.path, answer.Status)
		}
	}
}

// TestLogin signs in by the keyboard, and out, on every device.
func TestLogin(t *testing.T) {
	address, err := launch.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	console := "http://" + address
	enableAuth(t, cluster.StartSQLStore(t, "--listen-console-urls="+console).ClientURL())
	for _, on := range devices {
		t.Run(on.name, func(t *testing.T) { testLogin(open(t, console, on), on) })
	}
}

func testLogin(b *browser, on device) {
	look := func(what string) {
		b.Helper()
		b.fits(what)
		b.accessible(what)
		b.picture(what + "-" + on.name)
	}
	b.visit("/alarms")
	b.await(`location.pathname === "/login" && document.activeElement.id === "name"`)
	look("login")
	b.run(chromedp.KeyEvent("root" + kb.Tab + "wrong" + kb.Enter))
	b.await(`document.getElementById("wrong") !== null && document.activeElement.id === "password"`)
	look("login-failed")
	b.expect("status of 401")
	b.run(chromedp.KeyEvent("secret" + kb.Enter))
	b.await(`location.pathname === "/alarms" && document.title.startsWith("Alarms")`)
	look("signed-in")
	if text := b.text(".user"); !strings.Contains(text, "root") || !strings.Contains(text, "Sign out") {
		b.Errorf("the page says %q", text)
	}
	b.clean("signing in")
	// The browser does not send the cookie with this link.
	b.run(chromedp.Navigate("data:text/html,<a href='http://" + b.host + "/alarms'>Alarms</a>"))
	b.run(chromedp.Evaluate[chromedp.Void](`document.querySelector("a").click()`))
	b.await(`location.pathname === "/alarms" && document.title.startsWith("Alarms")`)
	b.clean("a link from elsewhere")
	b.run(chromedp.Click(`//button[.="Sign out"]`))
	b.await(`location.pathname === "/login"`)
	b.visit("/alarms")
	b.await(`location.pathname === "/login" && document.getElementById("wrong") === null && ` +
		`document.activeElement.id === "name"`)
	b.clean("signing out")
	// Signing out elsewhere shows on the overview, which is for everybody.
	b.run(chromedp.KeyEvent("root" + kb.Tab + "secret" + kb.Enter))
	b.await(`location.pathname === "/alarms"`)
	b.visit("/")
	b.await(`document.getElementById("user").innerText.includes("Sign out")`)
	b.run(chromedp.Evaluate[chromedp.Void](`fetch("/logout", { method: "POST" })`))
	b.await(`document.getElementById("user").innerText.trim() === "Sign in"`)
	b.accessible("signed out elsewhere")
	b.clean("signed out elsewhere")
}
