package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/authority"
	"github.com/sqlstore/sqlstore/internal/testing/pages"
	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// The commands on the pages work as written, in order.
func TestCommands(t *testing.T) {
	programs := map[string]string{
		"etcd": servers.Tool(t, "server"), "etcdctl": servers.Tool(t, "etcdctl"), "etcdutl": servers.Tool(t, "etcdutl"),
	}
	pages.Run(t, pages.Etcd, pages.Setup{
		Programs: programs,
		Replace:  strings.NewReplacer("/etc/kubernetes", kubeadm(t)).Replace,
	})
}

// kubeadm makes a directory like /etc/kubernetes, with the certificates of etcd and the manifests of static Pods.
func kubeadm(t *testing.T) string {
	t.Helper()
	dir, ca := t.TempDir(), authority.New(t)
	for _, name := range []string{"pki/etcd", "manifests"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	authority.Write(t, filepath.Join(dir, "pki/etcd/ca.crt"), ca.PEM())
	for _, name := range []string{"etcd/server", "apiserver-etcd-client"} {
		cert, key := ca.Issue(filepath.Base(name))
		authority.Write(t, filepath.Join(dir, "pki", name+".crt"), cert)
		authority.Write(t, filepath.Join(dir, "pki", name+".key"), key)
	}
	for name, text := range map[string]string{
		"etcd": "    - etcd\n", "kube-apiserver": "    - --etcd-servers=https://127.0.0.1:2379\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, "manifests", name+".yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
