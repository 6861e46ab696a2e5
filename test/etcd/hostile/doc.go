// Package hostile sends the target (see package servers) what no well-meaning client would. Whatever
// it answers, it must neither end nor stall: after each attack a put and a get work promptly.
//
// SQLSTORE_TEST_SEED repeats the random attacks of a run; SQLSTORE_TEST_TARGET=etcd attacks an etcd.
package hostile
