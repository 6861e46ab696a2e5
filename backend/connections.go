package backend

// Connections counts the connections of a backend over a server. One that has them tells by a method
// Connections() Connections.
type Connections struct {
	InUse, Idle, Max int
	// Waits is how often so far none was idle when one was needed, Opened how many were opened.
	Waits, Opened int64
}
