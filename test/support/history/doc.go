// Package history records the requests and answers of clients, and checks them against the history that the servers or
// their database have, and against what watches showed. It needs no server: its tests pass it wrong histories, and it
// must reject each of them.
//
// Every write carries a unique value, so that a write whose outcome its client does not know can be looked up in the
// history. The checks are separate functions:
//
//   - [Order]: revisions have no gap, each key's versions follow each other;
//   - [Previous]: each event has the version of its key before it;
//   - [Writes]: every acknowledged write exists once, at its acknowledged revision, complete; one without an answer
//     exists at most once; a refused one never; and every revision has a writer;
//   - [Reads]: a read shows what the history contains at its revision, which is not below that of any earlier
//     answer;
//   - [Linearizable]: the history of each key, as its clients saw it, is that of a register (with porcupine);
//   - [Answers]: the three before, and if reads may be stale by a bound, they count as sent that much earlier;
//   - [Watch]: a watch saw every event once, in order;
//   - [Leases]: a lease expires once, with all its keys, and not too early;
//   - [HeldLeases]: a server holds the leases that it should, with their keys.
package history
