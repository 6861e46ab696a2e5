// Package audit compares what the clients of a [load.Run] saw with what the database contains. It applies all checks of
// package history, after the load has stopped. [Read] may read the rows in parts, before each part is compacted.
package audit
