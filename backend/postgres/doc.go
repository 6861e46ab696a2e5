// Package postgres keeps sqlstore's rows in a Postgres database that any number of processes share.
//
// # Writes
//
// A write is one transaction in two pipelined round trips. [Backend.Begin] sends BEGIN, bounds in time, the lock of the
// clock's row, and then what the writer must know, each as a statement of its own: under READ COMMITTED its snapshot is
// younger than the lock. Commit sends the rows as arrays, the clock and COMMIT; notifications follow it. One connection
// writes.
//
//  1. Revisions are assigned while the clock's row is locked, and the clock moves in the transaction that inserts the
//     rows.
//  2. It is committed only when the server answers COMMIT, and without a warning: a wait for a synchronous standby that
//     was cancelled is answered so, too. An error with severity ERROR before that says that nothing happened; all else
//     is [backend.ErrUnknownOutcome].
//  3. A COMMIT that was sent is never cancelled. No context and no statement_timeout ends it, and the dialler of its
//     connection refuses to dial again, which pgx would do to send a cancel request. After 10 s the socket is closed;
//     the server goes on.
//  4. The clock is held for about 5 s at most, by a client that stands still or is cut off as well. While the server
//     waits for a client, idle_in_transaction_session_timeout (4 s) ends it between the round trips, and TCP's own
//     bounds (4 s) one that is out of reach, or does not take the answer, in the middle of one. From Postgres 17 on
//     transaction_timeout (5 s, from the lock to the COMMIT's beginning) bounds it all. Before 17 one case is left: a
//     process that stands still in the middle of sending a commit larger than its socket takes, on a machine that
//     lives.
//
// After any failure of a connection all are closed, as others may lead to a server that is not the primary any more.
//
// # Connections
//
// There are two pools. Reads have one of their own, so that they cannot keep the writer, heartbeats, looks at the clock
// and renewals of leases waiting for a connection. When the context of a statement ends, or its bound of 8 s, the
// server is asked to cancel it, and the connection is used again; it is closed where the server does not answer the
// request, or where the request came too late and might hit the next statement. For a process that cannot ask any more,
// statement_timeout (10 s) ends a statement, and client_connection_check_interval (2 s, from Postgres 14 on) one whose
// client is gone.
//
// # Reads
//
// A read is one statement, so its rows and its clock are of one snapshot. Lists go from key to key by the first entry
// of the index behind the last one (a recursive query). That needs nothing of the planner's knowledge, and hardly
// depends on how many versions a key has. DISTINCT ON is faster at its best, but the planner does not see the limit
// above it: where vacuum has not been, or versions are many, it reads and sorts all of the span. The keys of a page of
// 500 out of half the table, in ms, the least of seven runs of each in turn, by EXPLAIN (ANALYZE, BUFFERS) on Postgres
// 15 and two busy cores:
//
//	keys and versions  statistics  key walk  DISTINCT ON
//	20,000 x 1         vacuumed         1.4          0.2
//	20,000 x 1         none             1.8          8.9
//	20,000 x 5         vacuumed         1.8          0.6
//	20,000 x 100       vacuumed         4.4           12
//	20,000 x 100       analyzed         6.3          523
//	20,000 x 100       none             6.6        5,265
//	200,000 x 1        vacuumed         2.1          0.2
//	200,000 x 5        vacuumed         2.7          0.7
//	200,000 x 5        none             2.5        2,447
//
// Counts read their whole span anyhow and use DISTINCT ON: 41 ms instead of the walk's 655 for 100,000 keys of one
// version, 194 instead of 439 for as many of five, vacuumed; for 10,000 keys of a hundred versions the walk would be
// the faster, 151 instead of 322. Lookups are LATERAL with LIMIT 1, which leaves nothing but the index. Prepared
// statements may keep a plan that was made for an empty table, so the table is analyzed as it doubles.
//
// # Servers
//
// A connection is made to a server that takes writes, and if possible not to one that was replaced (of a lower
// timeline) or does not acknowledge commits. What a server answers is current only if it has not been replaced
// meanwhile. Only a commit that it acknowledges proves that, with the synchronous standby; see servers and
// [Backend.Confirm]. Answers on which that matters say which server gave them: a pooler may give each transaction
// another one.
//
// # Long keys
//
// An entry of an index has at most a third of a page. Of a key of more than 2,600 bytes the column key, and so the
// index, holds the first 2,600 bytes and the SHA-256 of all of it; the column long_key holds the key. That is unlike
// any other key, so lookups need nothing more. Only among long keys with the same first 2,600 bytes does the index not
// tell the order. They are sorted by the server where a bound of a span is that long, or a page ends among them: it
// reads all of them then. Short keys cost what they cost before.
//
// # What is not used
//
// No advisory locks, no session state on which anything relies, no stored procedures, no sequences. So a pooler in
// transaction mode works; settings are then local to a transaction, and a read is one, too. It is noticed by the
// process id that it gives out, which is not the server's; statements are then sent without being prepared
// (default_query_exec_mode=exec), unless the DSN names a mode: simple_protocol works, too, and those with prepared
// statements where the pooler carries them. Notifications are a hint: [Backend.Listen] finds out whether they arrive.
package postgres
