package backend

// Pooled is a [Backend] that keeps connections to a database server.
type Pooled interface {
	// Connections counts them.
	Connections() Connections
}

// Connections counts the connections of a [Pooled] backend.
type Connections struct {
	InUse, Idle, Max int
	// Waits is how often so far none was idle when one was needed, Opened how many were opened.
	Waits, Opened int64
}

// Reserving is a [Backend] that holds disk space in reserve. It releases the reserve when the disk is full, so that
// deletes and compaction can be committed, and restores it when there is room again.
type Reserving interface {
	// OutOfSpace returns an [ErrNoSpace] while the reserve is released, nil otherwise. Callers then commit no new rows
	// but tombstones.
	OutOfSpace() error
	// Reserved is the number of bytes in reserve: 0 while the reserve is released, or was never made.
	Reserved() int64
}

// Durability is a [Backend] over a server whose own settings decide whether a commit survives a crash. It refuses
// writes while they do not protect it, unless it was opened to accept that.
type Durability interface {
	// NotDurable names the settings that do not protect a commit, as NAME=VALUE; "" when all do.
	NotDurable() string
}
