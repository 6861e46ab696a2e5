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

// Durability is a [Backend] over a server whose own settings decide whether a commit survives a crash. It refuses
// writes while they do not protect it, unless it was opened to accept that.
type Durability interface {
	// NotDurable names the settings that do not protect a commit, as NAME=VALUE; "" when all do.
	NotDurable() string
}
