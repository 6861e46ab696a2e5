package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// TestReplicas looks on at one of two replicas while the other one, which does the maintenance, is killed.
func TestReplicas(t *testing.T) {
	dsn := pgserver.Database(t)
	start := func(name string) (s *launch.Server, console string) {
		address, err := launch.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		console = "http://" + address
		return launch.Start(t, launch.Config{Args: []string{
			"--datastore", dsn, "--name", name, "--listen-console-urls", console,
		}}), console
	}
	first, _ := start("first")
	second, console := start("second")
	overview, watch := open(t, console, devices[0]), open(t, console, devices[0])
	says := func(what string) {
		t.Helper()
		text := `document.getElementById("facts").innerText.replace(/\s+/g, " ")`
		overview.await(fmt.Sprintf("%s.includes(%q)", text, what))
	}
	overview.visit("/")
	says("Maintenance by first")
	says("second (this one)")
	overview.picture("replicas-both")
	watch.visit("/watch")
	put := func(key string) {
		t.Helper()
		answer, err := http.Post(second.ClientURL()+"/v3/kv/put", "application/json",
			strings.NewReader(fmt.Sprintf(`{"key":%q,"value":"eA=="}`, key)))
		if err != nil {
			t.Fatal(err)
		}
		if _ = answer.Body.Close(); answer.StatusCode != http.StatusOK {
			t.Fatalf("put: %s", answer.Status)
		}
	}
	put("YmVmb3Jl") // before
	watch.await(`document.getElementById("changes").innerText.includes("before")`)
	first.Kill()
	put("YWZ0ZXI=") // after
	watch.await(`document.getElementById("changes").innerText.includes("after")`)
	says("Replicas second (this one) Maintenance by this replica")
	overview.picture("replicas-one-left")
	overview.clean("the overview")
	watch.clean("the watch")
}
