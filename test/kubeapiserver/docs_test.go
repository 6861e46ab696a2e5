package kubeapiserver_test

import (
	"testing"

	"github.com/sqlstore/sqlstore/test/programs"
	"github.com/sqlstore/sqlstore/test/support/pages"
)

// The pages' commands that need a kube-apiserver work.
func TestDocs(t *testing.T) {
	pages.Run(t, pages.KubeAPIServer, pages.Setup{
		Programs: map[string]string{"kube-apiserver": programs.APIServer.Path(t)},
		Server:   true,
	})
}
