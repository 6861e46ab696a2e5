package patroni

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/testing/images"
	"github.com/sqlstore/sqlstore/internal/testing/pages"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver/guard"
	"github.com/sqlstore/sqlstore/test/programs"
	"github.com/sqlstore/sqlstore/test/support/hosts"
)

var (
	pageHosts   = regexp.MustCompile(`\b(pg[123]|dcs|sqlstore-[12])\b`)
	pageNetwork = regexp.MustCompile(`(network (?:create |rm )?)patroni\b`)
)

// The commands of docs/patroni.md work, with names of their own for containers, network and image.
func TestDocs(t *testing.T) {
	engine, err := images.Find()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := images.Patroni(t.Context(), engine); err != nil {
		t.Fatal(err)
	}
	name := hosts.UniqueName()
	if err := guard.Network(name); err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"pg1", "pg2", "pg3", "dcs", "sqlstore-1", "sqlstore-2"} {
		host = name + "-" + host
		if err := guard.Container(host); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if t.Failed() {
				t.Logf("end of the log of %s:\n%s", host, engine.Log(ctx, host, "40"))
			}
			_ = guard.RemoveContainer(ctx, engine.Client.Client, host) // the page has removed it unless it failed
		})
	}
	image := images.Sqlstore(t)
	pages.Run(t, pages.Patroni, pages.Setup{
		Programs: map[string]string{"etcdctl": programs.Etcdctl.Path(t)},
		Dir:      pages.Root(t),
		Replace: func(text string) string {
			text = strings.ReplaceAll(text, "make image", "make image IMAGE="+image)
			text = strings.ReplaceAll(text, "sqlstore:dev", image)
			text = pageNetwork.ReplaceAllString(text, "${1}"+name)
			return pageHosts.ReplaceAllString(text, name+"-$1")
		},
	})
}
