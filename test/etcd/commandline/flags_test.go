package commandline

import (
	"flag"
	"os/exec"
	"regexp"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
)

// mainFlags are those that etcd defines outside its package embed.
var mainFlags = []string{
	"config-file", "discovery-fallback", "initial-cluster-state", "v2-deprecation", "version", "cluster-active-size",
	"cluster-remove-delay", "cluster-sync-interval", "config", "force", "max-result-buffer", "max-retry-attempts",
	"peer-heartbeat-interval", "peer-election-timeout", "retry-interval", "snapshot", "v", "vv", "test.coverprofile",
	"test.outputdir",
}

// differs are flags whose default depends on others, is written differently, or guards browsers, which etcd does not.
var differs = map[string]bool{"initial-cluster": true, "log-rotation-config-json": true, "host-whitelist": true}

var shown = regexp.MustCompile(`(?m)^  --([\w.-]+) '(.*)'$`)

// sqlstore has every flag of etcd's, with etcd's default where nothing speaks against it.
func TestFlags(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), launch.Binary(t), "etcd", "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	ours := map[string]string{}
	for _, found := range shown.FindAllStringSubmatch(string(out), -1) {
		ours[found[1]] = found[2]
	}
	etcds := flag.NewFlagSet("etcd", flag.ContinueOnError)
	embed.NewConfig().AddFlags(etcds)
	count := 0
	etcds.VisitAll(func(f *flag.Flag) {
		count++
		value, ok := ours[f.Name]
		switch {
		case !ok:
			t.Errorf("--%s is missing", f.Name)
		case value != f.DefValue && !differs[f.Name]:
			t.Errorf("--%s is %q by default, in etcd %q", f.Name, value, f.DefValue)
		}
	})
	if count < 100 {
		t.Errorf("etcd has %d flags, want all", count)
	}
	for _, name := range mainFlags {
		if _, ok := ours[name]; !ok {
			t.Errorf("--%s is missing", name)
		}
	}
}
