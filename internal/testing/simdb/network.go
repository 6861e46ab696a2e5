package simdb

import "time"

// Request is one message of a client to its server, or a notification on its way to a client.
type Request struct {
	Client int    // number, in the order of Open
	Kind   string // such as "head", "commit", "heartbeat trip", "notify"
	Number uint64 // of this client's requests of this kind, from 0
}

// Network decides the fate of each request. It is called from several goroutines.
type Network func(Request) Fate

// Fate is what happens to a request. The zero Fate is an immediate answer.
type Fate struct {
	// Before and After are how long the request and its answer are under way.
	Before, After time.Duration
	// Lost loses the request, and LostAnswer the answer: the client waits in vain. A commit whose answer is lost has an
	// unknown outcome.
	Lost, LostAnswer bool
	// Refused makes the server end the statement with an error after Before, as at a statement timeout.
	Refused bool
	// Broken breaks the connection when the request arrives, before the server acts on it.
	Broken bool
}
