// Package conditions decides which conditions a server has, from what it observes, and logs their changes. Package
// status defines them.
//
// A configuration has a generation: 1 at the start, plus one for each reload, even a refused one. observedGeneration is
// the generation that a condition describes. Accepted describes the newest one: after a refused reload it is False with
// that reload's generation. All others describe the generation in force. If theirs is smaller than Accepted's, the
// newest settings are not in use.
//
// A condition that the operator has acknowledged is reported as before, and marked; it is logged at INFO, not at WARN.
//
// lastTransitionTime changes only when a condition's status changes, or a negative condition appears, whatever happens
// to its reason and message. This package knows nothing of servers: the caller fills in [Inputs].
package conditions
