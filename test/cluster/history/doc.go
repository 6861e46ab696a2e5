// Package history records the requests and answers of a cluster's clients, and checks them against the contents of the
// database and what watches showed. It talks to no server: its tests pass it wrong histories, each of which it must
// refuse.
//
// Every write carries a unique value, so that a write whose outcome its client does not know can be looked up in the
// history. The checks are separate functions:
//
//   - [Order]: revisions have no gap, each key's versions follow each other;
//   - [Writes]: every acknowledged write is there once, at its acknowledged revision, complete; one without an answer
//     at most once; a refused one never; and every revision has its writer;
//   - [Watch]: a watch saw every event once, in order;
//   - [Reads]: a read shows what the history contains at its revision, which is not below what any answer before it had
//     shown;
//   - [Linearizable]: the history of each key, as its clients saw it, is that of a register (with porcupine);
//   - [AllowStale]: if reads may be stale by a bound, the checks treat them as sent that much earlier;
//   - [Leases]: a lease ends once, with all its keys, and not before its time.
package history
