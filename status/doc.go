// Package status has what a server says about itself: its report at /status, as JSON, and the conditions in it, like
// Kubernetes' metav1.Condition and the Gateway API's GEP-1364.
//
// The positive summary conditions [Accepted], [ResolvedRefs], [Programmed] and [Ready] are always present. Each is True
// in a healthy server, and Unknown until its state is known. The negative conditions ([DatabaseUnavailable] and the
// others) are present only while they are True. An operator can acknowledge some of them ([Acknowledgeable]).
package status
