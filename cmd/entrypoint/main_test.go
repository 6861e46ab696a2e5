package main

import (
	"slices"
	"strings"
	"testing"
)

func TestProgram(t *testing.T) {
	image := []string{
		"/usr/local/bin/sqlstore", "/usr/local/bin/etcd", "/usr/local/bin/etcdctl", "/usr/local/bin/etcdutl",
		"/usr/local/bin/kine", "/bin/kine",
	}
	exists := func(path string) bool { return slices.Contains(image, path) }
	for asked, want := range map[string]string{
		"":                          "/usr/local/bin/sqlstore: sqlstore",
		"serve --data-dir /data":    "/usr/local/bin/sqlstore: sqlstore serve --data-dir /data",
		"--version":                 "/usr/local/bin/sqlstore: sqlstore --version",
		"check /data":               "/usr/local/bin/sqlstore: sqlstore check /data",
		"sqlstore status":           "/usr/local/bin/sqlstore: sqlstore status",
		"etcd --name a":             "/usr/local/bin/etcd: etcd --name a",
		"/usr/local/bin/etcd -name": "/usr/local/bin/etcd: /usr/local/bin/etcd -name",
		"kine --endpoint x":         "/usr/local/bin/kine: kine --endpoint x",
		"/bin/kine --endpoint x":    "/bin/kine: /bin/kine --endpoint x",
		"etcdctl get k":             "/usr/local/bin/etcdctl: etcdctl get k",
		"/bin/sh":                   "/usr/local/bin/sqlstore: sqlstore /bin/sh",
	} {
		path, args := program(strings.Fields(asked), exists)
		if got := path + ": " + strings.Join(args, " "); got != want {
			t.Errorf("%q runs %s, want %s", asked, got, want)
		}
	}
}
