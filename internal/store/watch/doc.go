// Package watch hands committed changes to watches. The engine publishes each batch to the [Hub] after its commit;
// [Stream]s carry any number of watches each to their consumers.
//
// A watch is synced while the hub hands it every event as it is published. A new watch of the past, or one whose
// consumer does not keep up, is unsynced: it catches up, as its consumer comes for more, from a window of recent events
// in memory or from the [History] in the database, and then joins the synced ones.
//
// Invariants that the package keeps:
//
//  1. Nothing reaches a watch before it is committed: events come from [Hub.Publish], or from the history up to the
//     revision that is published.
//  2. A watch gets every matching event once, in the order of revisions, all events of one revision in one response.
//     The hub offers a batch to all synced watches before it moves its revision; an unsynced watch knows the revision
//     from which it has to go on, and joins while nothing is published.
//  3. A progress response with revision R follows every event up to R on its stream.
//  4. Nobody waits for a slow watch: neither who publishes nor other watches.
//  5. Memory is bounded: the window by [Config.WindowBytes], what waits for a watch by [Config.WatcherBytes], and what
//     waits for all of them by [Config.WatchBytes], but for single revisions that are larger by themselves.
//
// The hub's lock comes before those of streams. The package knows the engine by the [Config] alone.
package watch
