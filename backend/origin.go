package backend

// Server identifies one run of a database server as the primary. It changes after a restart and after a promotion. The
// zero Server stands for an engine that does not report it.
type Server struct {
	// Timeline increases with every promotion.
	Timeline int64
	// Started is when the server was started, in microseconds by the server's clock.
	Started int64
}

// Origin identifies the server that gave an answer, and the time of the answer by that server's clock, in microseconds.
type Origin struct {
	Server Server
	At     int64
}
