package console

import (
	"net/url"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
)

// objects are what the tests create besides what kube-apiserver does.
const objects = `
apiVersion: v1
kind: ConfigMap
metadata: {name: web, namespace: default}
data: {speed: "3", colour: blue}
---
apiVersion: v1
kind: Secret
metadata: {name: token, namespace: default}
stringData: {password: not-for-the-page}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {containers: [{name: shop, image: "registry.example/shop:1.0"}]}
`

const (
	web    = "/registry/configmaps/default/web"
	secret = "/registry/secrets/default/token"
	shop   = "/registry/deployments/default/shop"
)

// pages are the paths of all pages.
var pages = map[string]string{
	"overview":   "/",
	"browse":     "/browse",
	"registry":   "/browse?prefix=/registry/",
	"configmaps": "/browse?prefix=/registry/configmaps/default/",
	"nothing":    "/browse?prefix=/none/",
	"object":     "/object?key=" + url.QueryEscape(web),
	"past":       "/object?key=" + url.QueryEscape(web) + "&at=2100-01-01",
	"protobuf":   "/object?key=" + url.QueryEscape(shop),
	"bytes":      "/object?raw=1&key=" + url.QueryEscape(shop),
	"secret":     "/object?key=" + url.QueryEscape(secret),
	"watch":      "/watch?prefix=/registry/",
	"top":        "/top",
	"growth":     "/top/growth",
	"leases":     "/leases",
	"users":      "/users",
	"alarms":     "/alarms",
	"restore":    "/restore?key=" + url.QueryEscape(web) + "&at=2100-01-01",
	"delete":     "/delete?key=" + url.QueryEscape(shop),
	"failure":    "/browse?at=yesterday",
}

// site is a server with a console, and the kube-apiserver that has filled it.
type site struct {
	console string
	store   cluster.Store
	cluster *cluster.Cluster
}

// TestConsole starts one site for everything.
func TestConsole(t *testing.T) {
	address, err := launch.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	s := &site{console: "http://" + address}
	s.store = cluster.StartSQLStore(t, "--listen-console-urls="+s.console, "--console-writes")
	s.cluster = cluster.Start(t, s.store, cluster.Config{WatchCache: true})
	s.cluster.Kubectl(t, strings.NewReader(objects), "apply", "-f", "-")
	s.cluster.Kubectl(t, nil, "patch", "configmap", "web", "--patch", `{"data":{"speed":"5"}}`)
	t.Run("Pages", func(t *testing.T) { testPages(t, s) })
	t.Run("Find", func(t *testing.T) { testFind(t, s) })
	t.Run("Suggestions", func(t *testing.T) { testSuggestions(t, s) })
	t.Run("Hidden", func(t *testing.T) { testHidden(t, s) })
	t.Run("Watch", func(t *testing.T) { testWatch(t, s) })
	t.Run("Live", func(t *testing.T) { testLive(t, s) })
	t.Run("Top", func(t *testing.T) { testTop(t, s) })
	t.Run("PutBack", func(t *testing.T) { testPutBack(t, s) })
	t.Run("Down", func(t *testing.T) { testDown(t, s) })
}

// sized is true once a page of keys has the bytes of its entries, and on other pages.
const sized = `!document.getElementById("sizes") || document.getElementById("sizes").hidden &&
	[...document.querySelectorAll("#entries tr")].every((row) =>
		row.cells[row.cells.length - 1].textContent.includes("B"))`

// testPages looks at every page on every device.
func testPages(t *testing.T, s *site) {
	for _, on := range devices {
		t.Run(on.name, func(t *testing.T) {
			b := open(t, s.console, on)
			for name, path := range pages {
				b.visit(path)
				b.await(sized)
				b.fits(name)
				b.accessible(name)
				b.picture(name + "-" + on.name)
				if name == "failure" {
					b.expect("status of 400")
				}
				b.clean(name)
			}
		})
	}
}
