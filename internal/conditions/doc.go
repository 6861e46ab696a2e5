// Package conditions reports the state of a server as conditions, like Kubernetes' metav1.Condition and the Gateway
// API's GEP-1364.
//
// The positive summary conditions [Accepted], [ResolvedRefs], [Programmed] and [Ready] are always present. Each is True
// in a healthy server, and Unknown until its state is known. The negative conditions ([DatabaseUnavailable] and the
// others) are present only while they are True.
//
// A configuration has a generation: 1 at the start, plus one for each reload, even a refused one. observedGeneration is
// the generation that a condition describes. Accepted describes the newest one: after a refused reload it is False with
// that reload's generation. All others describe the generation in force. If theirs is smaller than Accepted's, the
// newest settings are not in use.
//
// An operator can acknowledge some of the negative conditions ([Acknowledgeable]). An acknowledged one is reported as
// before, and marked; it is logged at INFO, not at WARN.
//
// lastTransitionTime changes only when a condition's status changes, or a negative condition appears, whatever happens
// to its reason and message. This package knows nothing of servers: the caller fills in [Inputs].
package conditions
