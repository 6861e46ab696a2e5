module github.com/sqlstore/sqlstore

go 1.26
