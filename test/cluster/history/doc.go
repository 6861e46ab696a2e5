// Package history holds what clients of a cluster did and were told, and checks it against what the database kept and what
// watches showed. It talks to no server: its tests hand it histories that are wrong, each of which must be refused.
//
// Every write carries a value that no other has, so that a write whose outcome its client does not know is found in the
// history, or is not. The checks, each a function of its own:
//
//   - [Order]: revisions have no gap, each key's versions follow each other;
//   - [Writes]: every acknowledged write is there once, at the revision it was acknowledged at, whole; one without an answer at
//     most once; a refused one never; and every revision has its writer;
//   - [Watch]: a watch saw every event once, in order;
//   - [Reads]: a read shows what the history holds at its revision, which is not below what anybody had been told before it;
//   - [Linearizable]: the history of each key, as its clients saw it, is one of a register (with porcupine);
//   - [AllowStale]: where reads may be stale by a bound, the checks see them as sent that much earlier;
//   - [Leases]: a lease ends once, with all its keys, and not before its time.
package history
