// Package hostile attacks the target (see package servers) as a hostile client would.
//
// Its table of abuses (see abuse) is the larger part: a separate process at a low priority floods the server, stalls,
// hangs up or sends garbage, while a well-behaved client puts and gets and measures the latency. The server must keep
// serving that client. When the attacker has gone, memory, goroutines, descriptors and the log must be back where they
// were. The other tests send one malformed request after another and check the answers.
//
//	SQLSTORE_TEST_WHOLE         unset: a few seconds of each abuse; the client is answered within six seconds
//	                            set: each at full length; the client is answered within two
//	SQLSTORE_TEST_SEED          repeats the random attacks of a run
//	SQLSTORE_TEST_TARGET=etcd   attacks an etcd. The run reports the results of each abuse, and none of them fails it
//
// Each attack is bounded in count and in time, and goes to the loopback interface.
package hostile
