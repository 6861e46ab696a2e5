// Package conditions tells the state of a server as conditions, in the manner of Kubernetes' metav1.Condition and of the Gateway
// API's GEP-1364.
//
// The positive summary conditions [Accepted], [ResolvedRefs], [Programmed] and [Ready] are always there; each is True in a server
// that is well, and Unknown while nobody can tell yet. The negative ones ([DatabaseUnavailable] and the others) are there only
// while they are True.
//
// A configuration has a generation: 1 at the start, and one more with each reload that is asked for, a refused one included. As
// a controller does, each condition tells in observedGeneration which generation it speaks of. Accepted speaks of the newest:
// when a reload is refused it is False with that reload's generation. All others speak of what is served, and so keep the
// generation that is in force: one that is smaller than Accepted's says that the newest settings are not in use.
//
// lastTransitionTime moves only when a condition's status changes, or a negative one appears, whatever becomes of its reason and
// message. This package knows nothing of servers: whoever has the facts fills [Facts].
package conditions
