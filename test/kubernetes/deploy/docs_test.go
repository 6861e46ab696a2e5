package deploy

import (
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/pages"
	"github.com/sqlstore/sqlstore/test/programs"
)

// The commands of docs/helm.md work on a kube-apiserver.
func TestDocs(t *testing.T) {
	t.Setenv("KUBECONFIG", startCluster(t).cluster.Kubeconfig())
	for _, name := range []string{"HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"} {
		t.Setenv(name, t.TempDir())
	}
	pages.Run(t, pages.Deploy, pages.Setup{Programs: map[string]string{
		"helm": programs.Helm.Path(t), "kubectl": programs.Kubectl.Path(t),
	}})
}
