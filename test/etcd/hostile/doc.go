// Package hostile sends the target (see package servers) what no well-meaning client would.
//
// Its table of abuses (see abuse) is the larger part: a process of its own, at a low priority, floods the server,
// dawdles, leaves or lies, while a well-behaved client puts and gets and notes how long that takes. That client must
// keep its service, and when the attacker has gone, memory, goroutines, descriptors and the log must be where they
// were. The other tests send what is malformed in a particular way, one after the other, and look at the answers.
//
//	SQLSTORE_TEST_ABUSE         short or unset: a few seconds of each abuse; the client is answered within six seconds
//	                            full: each at full length; the client is answered within two
//	SQLSTORE_TEST_ABUSE_TABLE   a file that a line of JSON is added to for each abuse: what docs/abuse.md tells
//	SQLSTORE_TEST_SEED          repeats the random attacks of a run
//	SQLSTORE_TEST_TARGET=etcd   attacks an etcd. The run reports the results of each abuse, and none of them fails it
//
// Each attack is bounded in count and in time, and goes to the loopback.
package hostile
