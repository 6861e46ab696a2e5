package postgres

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// examine returns the findings by subject.
func examine(t *testing.T, cfg Config) map[string]backend.Finding {
	t.Helper()
	found := map[string]backend.Finding{}
	for _, f := range Examine(t.Context(), cfg) {
		if _, ok := found[f.Subject]; ok {
			t.Errorf("two findings about %s", f.Subject)
		}
		if (f.Severity == backend.OK) != (f.Advice == "") {
			t.Errorf("%+v: advice belongs to what is not ok", f)
		}
		found[f.Subject] = f
	}
	return found
}

func wantFinding(t *testing.T, found map[string]backend.Finding, subject string, s backend.Severity, text string) {
	t.Helper()
	f, ok := found[subject]
	if !ok || f.Severity != s || !strings.Contains(f.Detail+" "+f.Advice, text) {
		t.Errorf("%s: %+v, want %v with %q, of %+v", subject, f, s, text, found)
	}
}

func databaseOf(t *testing.T, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Trim(u.Path, "/")
}

func TestExamine(t *testing.T) {
	dsn := pgserver.Database(t)
	found := examine(t, Config{DSN: dsn})
	wantFinding(t, found, "server", backend.OK, "reached directly")
	wantFinding(t, found, "schema", backend.OK, "empty")
	var schema, checksums string
	admin(t, dsn, "SELECT current_schema()::text", &schema)
	admin(t, dsn, "SELECT current_setting('data_checksums')", &checksums)
	wantFinding(t, found, "privileges", backend.OK, schema)
	wantFinding(t, found, "durability", backend.OK, "synced")
	if checksums == "off" {
		wantFinding(t, found, "page checksums", backend.Warning, "pg_checksums")
	} else {
		wantFinding(t, found, "page checksums", backend.OK, "")
	}
	wantFinding(t, found, "encoding", backend.OK, "UTF8")
	wantFinding(t, found, "autovacuum", backend.OK, "on")
	wantFinding(t, found, "old transactions", backend.OK, "old")
	wantFinding(t, found, "server's clock", backend.OK, "ahead")
	for _, subject := range []string{"round trip", "commit latency"} { // how fast it is depends on the machine
		if !strings.Contains(found[subject].Detail, "p50") {
			t.Errorf("%s: %+v", subject, found[subject])
		}
	}
	tables := 0
	if admin(t, dsn, "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()", &tables); tables != 0 {
		t.Errorf("an examination made %d tables", tables)
	}
	b := openTest(t, Config{DSN: dsn})
	wantFinding(t, examine(t, Config{DSN: dsn}), "schema", backend.OK, "version 1")
	wantClock(t, b, 1) // it committed nothing
	few := examine(t, Config{DSN: dsn, MaxConns: 100000})
	wantFinding(t, few, "connections", backend.Warning, "max_connections")

	slot := strings.ReplaceAll(databaseOf(t, dsn), "-", "_")
	admin(t, dsn, fmt.Sprintf("SELECT pg_create_physical_replication_slot('%s')", slot))
	defer admin(t, dsn, fmt.Sprintf("SELECT pg_drop_replication_slot('%s')", slot))
	wantFinding(t, examine(t, Config{DSN: dsn}), "replication slots", backend.Warning, slot)
}

// A user who may not do what a server does is found, and so is a server that a start refuses.
func TestExamineFailures(t *testing.T) {
	dsn := pgserver.Database(t)
	role := "examined_" + strings.ReplaceAll(databaseOf(t, dsn), "-", "_")
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "p")
	limited := Config{DSN: u.String()}
	admin(t, dsn, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD 'p'; REVOKE CREATE ON SCHEMA public FROM PUBLIC", role))
	defer admin(t, dsn, fmt.Sprintf("DROP OWNED BY %s; DROP ROLE %[1]s", role))
	wantFinding(t, examine(t, limited), "privileges", backend.Failure, "GRANT CREATE ON SCHEMA public TO "+role)
	openTest(t, Config{DSN: dsn})
	admin(t, dsn, "GRANT SELECT ON ALL TABLES IN SCHEMA public TO "+role)
	wantFinding(t, examine(t, limited), "privileges", backend.Failure, "the owner of the tables")
	admin(t, dsn, "GRANT ALL ON ALL TABLES IN SCHEMA public TO "+role)
	wantFinding(t, examine(t, limited), "privileges", backend.Warning, "cannot migrate")

	admin(t, dsn, fmt.Sprintf("ALTER DATABASE %q SET synchronous_commit = off", databaseOf(t, dsn)))
	found := examine(t, Config{DSN: dsn})
	wantFinding(t, found, "Postgres", backend.Failure, "synchronous_commit=off")
	if len(found) != 1 {
		t.Errorf("%+v after a server that a start refuses", found)
	}
	found = examine(t, Config{DSN: dsn, UnsafeNoFsync: true})
	wantFinding(t, found, "durability", backend.Warning, "synchronous_commit=off")
	wantFinding(t, examine(t, Config{DSN: "postgres://u@127.0.0.1:1/d"}), "Postgres", backend.Failure, "refused")
}
