// Package postgres keeps sqlstore's rows in a Postgres database that any number of processes share.
//
// # Writes
//
// A write is one transaction in two pipelined round trips. [Backend.Begin] sends BEGIN, bounds in time, the lock of the clock's
// row, and then what the writer must know, each as a statement of its own: under READ COMMITTED its snapshot is younger than the
// lock. Commit sends the rows as arrays, the clock, a notification and COMMIT. One connection writes; it stays out of the pool, so
// that reads cannot starve it.
//
//  1. Revisions are assigned while the clock's row is locked, and the clock moves in the transaction that inserts the rows.
//  2. It is committed only when the server answers COMMIT, and without a warning: a wait for a synchronous standby that was
//     cancelled is answered so, too. An error with severity ERROR before that says that nothing happened; all else is
//     [backend.ErrUnknownOutcome].
//  3. A COMMIT that was sent is never cancelled. No context and no statement_timeout ends it, and the dialler of a connection that
//     is made refuses to dial again, which pgx would do to send a cancel request. After 10 s the socket is closed; the server goes on.
//  4. The clock is held for a few seconds at most, by a client that stands still as well: idle_in_transaction_session_timeout,
//     and for one that vanishes in the middle of a round trip TCP's own bounds and, from Postgres 17 on, transaction_timeout.
//
// After any failure of a connection all are closed, as others may lead to a server that is not the primary any more.
//
// # Reads
//
// A read is one statement, so its rows and its clock are of one snapshot. Lists go from key to key by the first entry of the
// index behind the last one (a recursive query), which costs the same for one version of a key and for a hundred, and needs nothing
// of the planner's knowledge. DISTINCT ON took 0.8 ms instead of 1.4 for the keys of a page of 500 with one to five versions each,
// and 8 with a hundred, but the planner does not see the limit above it and reads and sorts the whole table where vacuum has not
// been yet. Lookups are LATERAL with LIMIT 1, which leaves nothing but the index either. Plans made for an empty
// table are kept by prepared statements: the tables are analyzed as they double.
//
// # What is not used
//
// No advisory locks, no session state (all settings are local to a transaction), no stored procedures, no sequences. So a pooler in
// transaction mode works; one without prepared statements wants default_query_exec_mode=exec or simple_protocol in the DSN.
// Notifications are a hint: [Backend.Listen] finds out whether they arrive.
package postgres
