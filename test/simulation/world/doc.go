// Package world is one simulated run: a cluster of package simdb, several stores over it, opened as the server opens
// them, model clients of each, and faults. Everything follows from a seed, and runs in the virtual time of a bubble of
// testing/synctest.
//
// A run has one of three kinds of database ([Alone], [Synchronous], [Asynchronous]), and two parts: faults under load,
// one after the other and with a changing network, and then a time without faults in which everything has to recover.
// Afterwards, [World.Result] compares what clients saw with what the database contains:
//
//   - histories are linearizable within the stores' read bound, per key and across keys, and no write is lost,
//     doubled or half there (package history);
//   - a watch sees every event once and in order, across all its streams and replicas, and a progress response never
//     promises what did not arrive;
//   - leases do not end early, and all end after their last renewal;
//   - every replica answers reads, writes and progress requests at the end, and shows the same;
//   - requests that the engine calls not applied are not in the history;
//   - while there are no faults, no request of a replica that competes with others fails.
//
// When a fault loses history (a failover to a server that lacks commits, a restore), clients' requests are checked
// separately before and after, each against the history of that time: an era.
//
// synctest itself reports goroutines that are left at the end.
package world
