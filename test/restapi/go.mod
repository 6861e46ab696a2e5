module github.com/sqlstore/sqlstore/test/restapi

go 1.26.0

replace github.com/sqlstore/sqlstore => ../..
