package backend

import "time"

// Server identifies one run of a database server as the primary. It changes after a restart and after a promotion. The
// zero Server stands for an engine that does not report it.
type Server struct {
	// Timeline increases with every promotion.
	Timeline int64
	// Started is when the server was started, in microseconds by the server's clock.
	Started int64
}

// Origin says where an answer comes from.
type Origin struct {
	Server Server
	// At is the time of the answer by the server's clock, in microseconds.
	At int64
	// Since is when the connection was made that the answer came over, by this machine's clock. It is zero if a pooler
	// is in between, and for engines without connections.
	Since time.Time
}
