// Package audit compares what the clients of a [load.Run] saw with what the database contains: it applies all checks of
// package history, after the load has stopped.
package audit
