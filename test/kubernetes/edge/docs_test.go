package edge

import (
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/pages"
	"github.com/sqlstore/sqlstore/test/programs"
)

// The commands of the example's page work.
func TestDocs(t *testing.T) {
	pages.Run(t, pages.Examples, pages.Setup{Programs: map[string]string{
		"kubectl": programs.Kubectl.Path(t), "kwok": programs.Kwok.Path(t),
	}})
}
