package apiserver_test

import (
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/pages"
	"github.com/sqlstore/sqlstore/test/programs"
)

// The pages' commands that need a kube-apiserver work.
func TestDocs(t *testing.T) {
	pages.Run(t, pages.KubeAPIServer, pages.Setup{
		Programs: map[string]string{"kube-apiserver": programs.APIServer.Path(t)},
		Server:   true,
	})
}
