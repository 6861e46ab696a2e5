// Package watch delivers committed changes to watches. The engine publishes each batch to the [Hub] after its commit. A
// [Stream] carries any number of watches to one consumer.
//
// A watch is synced while the hub hands it every event as it is published. A watch that starts in the past, or whose
// consumer does not keep up, is unsynced. As its consumer asks for more, it catches up from a window of recent events
// in memory or from the [History] in the database, and then joins the synced ones.
//
// Invariants:
//
//  1. Nothing reaches a watch before it is committed: events come from [Hub.Publish], or from the history up to the
//     published revision.
//  2. A watch gets every matching event once, in revision order, with all events of one revision in one response. The
//     hub offers a batch to all synced watches before it advances its revision. An unsynced watch knows the revision it
//     continues from, and joins while nothing is being published.
//  3. A progress response with revision R follows every event up to R on its stream.
//  4. Nobody waits for a slow watch, neither the publisher nor other watches.
//  5. Memory is bounded: the window by [Config.WindowBytes], the events pending for a watch by [Config.WatcherBytes],
//     and those pending for all watches by [Config.WatchBytes]. A single revision may exceed a bound.
//
// The hub's lock is taken before the streams' locks. The package knows the engine only through the [Config].
package watch
