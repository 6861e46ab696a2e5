// Package moves tests moves between sqlstore and other stores, with data that the others have written themselves. It is
// a separate module because of what it starts.
//
//	kine/      a current kine, a module of its own, as its dependencies must not meet sqlstore's
//	kine011/   the oldest kine that is supported, the same
//	server/    kine and MariaDB as processes
//
// SQLSTORE_TEST_SEED repeats a random history, and SQLSTORE_TEST_WRITES sets its length.
package moves
