package docs

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/mattn/go-sqlite3"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pages"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// heredoc is what the page gives sqlite3 to read.
var heredoc = regexp.MustCompile(`(?s)<<'END'\n(SELECT.*?)\nEND`)

// queries returns the page's three queries, for SQLite and for Postgres.
func queries(t *testing.T) (sqlite, postgres []string) {
	t.Helper()
	all := pages.All(t)
	i := slices.IndexFunc(all, func(p pages.Page) bool { return p.Name == "docs/history.md" })
	for _, b := range all[i].Blocks() {
		if m := heredoc.FindStringSubmatch(b.Text); m != nil {
			sqlite = append(sqlite, m[1])
		}
		for statement := range strings.SplitSeq(b.Text, ";\n") {
			if b.Language == "sql" && strings.Contains(statement, "SELECT") {
				postgres = append(postgres, statement)
			}
		}
	}
	if len(sqlite) != 3 || len(postgres) != 3 {
		t.Fatalf("%d queries for SQLite and %d for Postgres, want three", len(sqlite), len(postgres))
	}
	return sqlite, postgres
}

// The queries of docs/history.md find what they promise. A night and a noon that end when the test runs take the place
// of the page's.
func TestHistoryQueries(t *testing.T) {
	sqlite, postgres := queries(t)
	dir, dsn := filepath.Join(t.TempDir(), "d"), pgserver.Database(t)
	for _, c := range []struct {
		name, database, driver, source string
		queries                        []string
		now                            *strings.Replacer
	}{
		{
			"sqlite", "--data-dir=" + dir, "sqlite3", filepath.Join(dir, "sqlstore.db"), sqlite,
			strings.NewReplacer("'localtime', 'start of day', '-2 hours', 'utc'", "'-2 hours'",
				"'localtime', 'start of day', '+6 hours', 'utc'", "'+6 hours'",
				"'localtime', 'start of day', '+12 hours', 'utc'", "'+12 hours'"),
		},
		{
			"postgres", "--datastore=" + dsn, "pgx", dsn, postgres,
			strings.NewReplacer("'yesterday 22:00'", "now() - interval '2 hours'",
				"'today 06:00'", "now() + interval '6 hours'",
				"'today 12:00'", "now() + interval '12 hours'"),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := launch.Start(t, launch.Config{Args: []string{c.database}})
			client, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Endpoint()}})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			for _, put := range [][2]string{
				{"red", "1"}, {"red", "22"}, {"green", "1"}, {"green", ""},
			} {
				key := "/registry/configmaps/default/" + put[0]
				if put[1] == "" {
					_, err = client.Delete(t.Context(), key)
				} else {
					_, err = client.Put(t.Context(), key, put[1])
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			db, err := sql.Open(c.driver, c.source)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			for i, want := range []string{
				"/registry/configmaps/default/ 2 4 136", "/registry/configmaps/default/green 5 ",
				"3 22",
			} {
				query := c.now.Replace(c.queries[i])
				if i > 0 && query == c.queries[i] {
					t.Fatalf("%s does not name the time that the test replaces", query)
				}
				if got := rows(t, db, query); len(got) != 1 || !strings.HasPrefix(got[0], want) {
					t.Errorf("%s\nfinds %q, want one row, %q", query, got, want)
				}
			}
		})
	}
}

// rows returns the rows of a query, each as one text.
func rows(t *testing.T, db *sql.DB, query string) (all []string) {
	t.Helper()
	found, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer found.Close()
	columns, err := found.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for found.Next() {
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(any)
		}
		if err := found.Scan(values...); err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, v := range values {
			value := *v.(*any)
			if b, ok := value.([]byte); ok {
				value = string(b)
			}
			texts = append(texts, fmt.Sprint(value))
		}
		all = append(all, strings.Join(texts, " "))
	}
	if err := found.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
