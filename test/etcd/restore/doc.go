// Package restore tests 'sqlstore restore --keys' against real servers: etcd, and sqlstore over SQLite and Postgres.
package restore
