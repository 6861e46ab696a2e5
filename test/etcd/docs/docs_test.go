package docs

import (
	"testing"

	"github.com/sqlstore/sqlstore/test/etcd/servers"
	"github.com/sqlstore/sqlstore/test/support/pages"
)

// The commands on the pages work as written, in order.
func TestCommands(t *testing.T) {
	programs := map[string]string{"etcdctl": servers.Tool(t, "etcdctl"), "etcdutl": servers.Tool(t, "etcdutl")}
	pages.Run(t, pages.Etcd, pages.Setup{Programs: programs})
}
