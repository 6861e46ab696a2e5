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

// heredoc is the file of queries that the page writes.
var heredoc = regexp.MustCompile(`(?s)<<'END'\n(.*?)\nEND`)

// queries returns the page's three queries. A night and a noon that contain the present take the place of the page's.
func queries(t *testing.T) (queries []string) {
	t.Helper()
	all := pages.All(t)
	i := slices.IndexFunc(all, func(p pages.Page) bool { return p.Name == "docs/history.md" })
	text := all[i].Text
	text = text[strings.Index(text, "\n## SQL"):]
	times := strings.NewReplacer("2026-11-22 22:00", "2000-01-01 22:00", "2026-11-23", "2100-01-01")
	if m := heredoc.FindStringSubmatch(text); m != nil {
		queries = slices.Collect(strings.SplitSeq(times.Replace(m[1]), ";\n\n"))
	}
	if len(queries) != 3 || strings.Contains(strings.Join(queries, ""), "2026") {
		t.Fatalf("queries %q, want three of 2026-11-22 and 23", queries)
	}
	return queries
}

// The queries of docs/history.md find what they promise, on both databases.
func TestHistoryQueries(t *testing.T) {
	queries := queries(t)
	dir, dsn := filepath.Join(t.TempDir(), "d"), pgserver.Database(t)
	for _, c := range []struct{ name, database, driver, source string }{
		{"sqlite", "--data-dir=" + dir, "sqlite3", filepath.Join(dir, "sqlstore.db")},
		{"postgres", "--datastore=" + dsn, "pgx", dsn},
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
				query := queries[i]
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
