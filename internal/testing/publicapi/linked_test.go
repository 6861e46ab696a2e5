package publicapi

import (
	"strings"
	"testing"
)

// commandOnly are modules that the command links and programs that embed the server must not.
var commandOnly = []string{"k8s.io/", "sigs.k8s.io/"}

// Programs that embed the server do not link what only the command needs.
func TestEmbeddersDoNotLinkTheCommand(t *testing.T) {
	for _, path := range public {
		if path == module+"/cmd/sqlstore" {
			continue
		}
		for _, linked := range list(t, "-deps", path) {
			for _, prefix := range commandOnly {
				if strings.HasPrefix(linked, prefix) {
					t.Errorf("%s links %s", path, linked)
				}
			}
		}
	}
}
