package pitr

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/pages"
	"github.com/sqlstore/sqlstore/test/programs"
)

// The commands on docs/pitr.md work as written, in order.
func TestDocs(t *testing.T) {
	c := newCluster(t)
	commands := map[string]string{"litestream": programs.Litestream.Path(t), "etcdctl": programs.Etcdctl.Path(t)}
	dir := t.TempDir()
	for _, name := range []string{"psql", "pg_ctl", "pgbackrest"} {
		commands[name] = filepath.Join(dir, name)
		if err := os.WriteFile(commands[name], []byte(c.script(t, name)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(c.config(), nil, 0o644); err != nil { // for the server's user to read
		t.Fatal(err)
	}
	replace := strings.NewReplacer("/etc/pgbackrest.conf", c.config(), "/var/lib/pgbackrest",
		filepath.Join(c.dir, "repository"), "/var/lib/postgresql/15/main", c.data, "/var/log/postgresql/15.log",
		c.log(),
		"postgres://sqlstore@localhost/sqlstore", c.dsn())
	pages.Run(t, pages.PITR, pages.Setup{Programs: commands, Replace: replace.Replace})
}

// script calls a program as the server's user, with what distinguishes the test's server from the machine's.
func (c *cluster) script(t *testing.T, name string) string {
	t.Helper()
	as := ""
	if u := c.programs.Credential; u != nil {
		as = fmt.Sprintf("setpriv --reuid=%d --regid=%d --clear-groups ", u.Uid, u.Gid)
	}
	var set strings.Builder
	for _, variable := range c.env {
		if strings.HasPrefix(variable, "PG") {
			fmt.Fprintf(&set, "export '%s'\n", variable)
		}
	}
	return fmt.Sprintf("#!/bin/sh\ncd '%s'\n%sexec %s'%s' \"$@\"\n", c.dir, &set, as, c.program(t, name))
}
