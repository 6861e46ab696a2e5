// Package etcdtests runs etcd's own end-to-end tests, the packages common and e2e of go.etcd.io/etcd/tests/v3, with
// sqlstore in the place of the program etcd. etcdctl and etcdutl are etcd's own.
//
//	go test -v .                            # every test, each of which is a subtest here
//	go test -v -run 'TestCommon/TestKV' .   # some of them
//	SQLSTORE_TEST_PART=3/8                  # an eighth of them: those whose number, divided by 8, leaves 3
//	SQLSTORE_TEST_WHOLE=1                   # package common with TLS certificates made by the server, too
//
// A cluster of one member is on SQLite, in its data directory. The members of a larger one share a Postgres database:
// see package etcd, the program that the tests start. Its subcommands gateway and grpc-proxy are etcd's, in front of
// sqlstore.
//
// Every test must pass, or be in exclusions.txt with the reason. One that is there and passes fails, too.
package etcdtests

import (
	_ "go.etcd.io/etcd/tests/v3/common" // so that go.mod names the module
	_ "go.etcd.io/etcd/tests/v3/e2e"
)
