package main

import (
	"io"
	"strings"
	"testing"
)

func TestSuggestions(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"sreve", `unknown command "sreve" for "sqlstore"; did you mean serve?`},
		{"schema stauts", `unknown command "stauts" for "sqlstore schema"; did you mean status?`},
		{"serve --data-dri x", "unknown flag: --data-dri; did you mean --data-dir?"},
		{"--listen-client-url x", "unknown flag: --listen-client-url; did you mean --listen-client-urls?"},
		{"serve --client-cert-auth=yes", `--client-cert-auth "yes": write true or false`},
		{"repair --bump-revison 5", "did you mean --bump-revision?"},
		{"serve --zzzzzzzzzzzz x", "unknown flag: --zzzzzzzzzzzz"},
		{"serve --initial-cluster a=b", "it is etcd's: 'sqlstore etcd' takes etcd's command line"},
		{"--listen-address unix://s", "it is kine's: 'sqlstore kine' takes kine's command line"},
		{"repair postgres://u:secret@h/d", "found an argument without its flag"},
	} {
		cmd := command()
		cmd.SetArgs(strings.Fields(c.args))
		cmd.SetOut(io.Discard)
		err := cmd.Execute()
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
		if c.want == "unknown flag: --zzzzzzzzzzzz" && strings.Contains(err.Error(), "mean") {
			t.Errorf("%s: %v", c.args, err)
		}
	}
}
