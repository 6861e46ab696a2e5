package datastore

import (
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/env"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		datastore, replicas, pgbouncer string
		want                           Choice
		fails                          bool
	}{
		{want: Choice{Replicas: 1}},
		{datastore: "sqlite", replicas: "1", pgbouncer: "0", want: Choice{Replicas: 1}},
		{datastore: "postgres", want: Choice{Postgres: true, Replicas: 1}},
		{datastore: "postgres", replicas: "3", pgbouncer: "1", want: Choice{
			Postgres: true, Replicas: 3,
			PgBouncer: true,
		}},
		{datastore: "postgres://h/d", replicas: "2", want: Choice{Postgres: true, DSN: "postgres://h/d", Replicas: 2}},
		{datastore: "postgresql://h/d", want: Choice{Postgres: true, DSN: "postgresql://h/d", Replicas: 1}},
		{datastore: "mysql", fails: true},
		{datastore: "postgres", replicas: "0", fails: true},
		{datastore: "postgres", replicas: "many", fails: true},
		{datastore: "postgres", pgbouncer: "yes", fails: true},
		{replicas: "3", fails: true},
		{pgbouncer: "1", fails: true},
	} {
		values := map[env.Variable]string{
			env.Datastore: c.datastore, env.Replicas: c.replicas, env.PgBouncer: c.pgbouncer,
		}
		got, err := parse(func(v env.Variable) string { return values[v] })
		if (err != nil) != c.fails || (err == nil && got != c.want) {
			t.Errorf("%v: %+v, %v; want %+v, failure %t", values, got, err, c.want, c.fails)
		}
	}
}
