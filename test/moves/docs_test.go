package moves

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pages"
	"github.com/sqlstore/sqlstore/test/moves/server"
)

// systemctl stops and starts kine, which is what k3s runs.
const systemctl = `#!/bin/bash
set -eu
case "$1 $2" in
"stop k3s") kill %[1]d; tail --pid=%[1]d -f /dev/null ;;
"start k3s") %[2]s --endpoint '%[3]s' --listen-address %[4]s --metrics-bind-address 0 >/dev/null 2>&1 & ;;
*) exit 1 ;;
esac
`

// The commands on the page of kine work as written: from a kine to sqlstore, and back to kine, which has the same.
func TestDocs(t *testing.T) {
	dir := t.TempDir()
	database := filepath.Join(dir, "k3s/server/db/state.db")
	if err := os.MkdirAll(filepath.Dir(database), 0o700); err != nil {
		t.Fatal(err)
	}
	endpoint := "sqlite://" + database + "?_journal_mode=WAL&cache=shared&_busy_timeout=30000&_txlock=immediate"
	v := server.Versions[0]
	k := v.Start(t, endpoint)
	h := newHistory(t, k.Client, v.Compacts)
	h.write(writes(t))
	h.settle()
	want := record(t, k.Client, h.compacted)
	want.setCreated()
	address, err := launch.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "systemctl")
	text := fmt.Sprintf(systemctl, k.Pid(), v.Program(t), endpoint, address)
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	pages.Run(t, pages.Moves, pages.Setup{
		Programs: map[string]string{"systemctl": script},
		Replace:  strings.NewReplacer("/var/lib/rancher", dir).Replace,
	})
	checkKine(t, v.Start(t, endpoint).Client, withLiveLeases(want), v.Compacts)
}
