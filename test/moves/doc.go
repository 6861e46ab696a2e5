// Package moves tests moves between sqlstore and other stores, with data that the others have written themselves.
//
//	server/    kine, the newest and the oldest that is supported, and MariaDB as processes
//
// SQLSTORE_TEST_SEED repeats a random history, and SQLSTORE_TEST_LENGTH sets how many writes it has.
package moves
