// Package postgres stores sqlstore's rows in a Postgres database that any number of processes share.
//
// # Writes
//
// A write is one transaction in two pipelined round trips. [Backend.Begin] sends BEGIN, timeouts, the lock of the
// clock's row, and then the queries for what the writer must know, each as a separate statement: under READ COMMITTED
// its snapshot is taken after the lock. Commit sends the rows as arrays, the clock and COMMIT; notifications follow it.
// One connection writes.
//
//  1. Revisions are assigned while the clock's row is locked, and the clock moves in the transaction that inserts the
//     rows.
//  2. A transaction counts as committed only when the server answers COMMIT, and without a warning: the server also
//     answers COMMIT, with a warning, when a wait for a synchronous standby was cancelled. Each transaction sets
//     client_min_messages, because a role or database may silence warnings. An error with severity ERROR before that
//     means that nothing happened; everything else is [backend.ErrUnknownOutcome].
//  3. A COMMIT that was sent is never cancelled. No context and no statement_timeout ends it, and the dialler of its
//     connection refuses to dial again, which pgx would do to send a cancel request. After 10 s the socket is closed;
//     the server carries on.
//  4. The clock is held for about 5 s at most, even by a client that is suspended or cut off. While the server waits
//     for a client between the round trips, idle_in_transaction_session_timeout (4 s) ends the transaction; in the
//     middle of a round trip, TCP timeouts (4 s) end that of a client that is unreachable or does not read the answer.
//     From Postgres 17 on, transaction_timeout (5 s, from the lock to the beginning of the COMMIT) covers all of this.
//     Before 17 one case remains: a process that is suspended, on a machine that keeps running, while it sends a commit
//     that is larger than its socket buffer.
//
// When a connection fails, the backend closes all of them: the others may lead to a former primary.
//
// # Connections
//
// There are two pools. Reads have a separate one, so that the writer, heartbeats, reads of the clock and renewals of
// leases never wait for a connection because of them. Reads that may take long leave a connection to other reads. When
// the context of a statement ends, or its timeout of 8 s expires, the process asks the server to cancel it, and reuses
// the connection. It closes the connection if the server does not answer the request, or if the request came too late
// and might hit the next statement. If the process can no longer ask, statement_timeout (10 s) ends a statement, and
// client_connection_check_interval (2 s, from Postgres 14 on) ends one whose client is gone.
//
// # Reads
//
// A read is one statement, so its rows and its clock come from one snapshot. Lists walk from key to key: each step
// looks up the first index entry after the last key (a recursive query). That does not depend on the planner's
// statistics, and hardly on how many versions a key has. DISTINCT ON is faster at its best, but the planner does not
// see the limit above it: before the table is vacuumed, or with many versions, it reads and sorts all of the span. The
// table shows the time for the keys of a page of 500 out of half the table, in ms: the minimum of seven alternating
// runs, from EXPLAIN (ANALYZE, BUFFERS) on Postgres 15 with two busy cores:
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
// Counts read their whole span anyway and use DISTINCT ON. On a vacuumed table, that takes 41 ms instead of the walk's
// 655 for 100,000 keys with one version, and 194 instead of 439 for as many keys with five. For 10,000 keys with a
// hundred versions the walk would be faster, 151 instead of 322. Lookups use LATERAL with LIMIT 1, which leaves the
// planner no choice but the index. Prepared statements may keep a plan that was made for an empty table, so the table
// is analyzed each time it doubles.
//
// # Servers
//
// A connection is made to a server that accepts writes, and if possible not to one that was replaced (it has a lower
// timeline) or does not acknowledge commits. A server's answer is current only if the server has not been replaced in
// the meantime. Only a commit that the server acknowledges, together with the synchronous standby, proves that; see
// servers and [Backend.Confirm]. Answers for which that matters identify the server that gave them: a pooler may route
// each transaction to a different one.
//
// # Long keys
//
// An index entry takes at most a third of a page. For a key of more than 2,600 bytes, the column key, and with it the
// index, holds the first 2,600 bytes and the SHA-256 of the whole key; the column long_key holds the key. The value in
// the column key differs from that of any other key, so lookups need nothing more. The index does not give the order
// only among long keys with the same first 2,600 bytes. If a bound of a span is that long, or a page ends among them,
// the server reads and sorts all of them. Short keys have no extra cost.
//
// # What is not used
//
// The package uses no advisory locks, relies on no session state, and has no stored procedures and no sequences. So a
// pooler in transaction mode works; settings are then local to a transaction, and a read is a transaction, too. A
// pooler is detected by the process id that it reports, which is not the server's. Statements are then sent unprepared
// (default_query_exec_mode=exec), unless the DSN names a mode: simple_protocol works, too, as do the modes with
// prepared statements if the pooler supports them. Notifications are only hints: [Backend.Listen] finds out whether
// they arrive.
package postgres
