package backend

// Server names one run of a database server as the primary: it is another one after a restart, and after a promotion.
// The zero Server is that of an engine that does not report it.
type Server struct {
	// Timeline rises with every promotion.
	Timeline int64
	// Started is when the server was started, in microseconds by its own clock.
	Started int64
}

// Origin says which server gave an answer, and when by that server's clock, in microseconds.
type Origin struct {
	Server Server
	At     int64
}
