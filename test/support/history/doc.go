// Package history records the requests and answers of a cluster's clients, and checks them against the contents of the
// database and what watches showed. It needs no server: its tests pass it wrong histories, and it must reject each of
// them.
//
// Every write carries a unique value, so that a write whose outcome its client does not know can be looked up in the
// history. The checks are separate functions:
//
//   - [Order]: revisions have no gap, each key's versions follow each other;
//   - [Writes]: every acknowledged write exists once, at its acknowledged revision, complete; one without an answer
//     exists at most once; a refused one never; and every revision has a writer;
//   - [Watch]: a watch saw every event once, in order;
//   - [Reads]: a read shows what the history contains at its revision, which is not below that of any earlier
//     answer;
//   - [Linearizable]: the history of each key, as its clients saw it, is that of a register (with porcupine);
//   - [AllowStale]: if reads may be stale by a bound, the checks treat them as sent that much earlier;
//   - [Leases]: a lease expires once, with all its keys, and not too early.
package history
