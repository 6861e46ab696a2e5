module github.com/sqlstore/sqlstore

go 1.26

require (
	github.com/golang-migrate/migrate/v4 v4.20.1
	github.com/mattn/go-sqlite3 v1.14.52
)

require github.com/tidwall/btree v1.8.2 // indirect
