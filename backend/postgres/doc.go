// Package postgres keeps sqlstore's rows in a Postgres database that any number of processes share.
package postgres
