// Package exemplar adds traces to histograms, as examples of the requests in a bucket.
package exemplar

import "github.com/prometheus/client_golang/prometheus"

// Labels returns the labels of an exemplar for a trace, under the name by which dashboards find it.
func Labels(trace string) prometheus.Labels { return prometheus.Labels{"trace_id": trace} }

// Observe adds a value to a histogram, with a trace as its exemplar unless the trace's id is "".
func Observe(o prometheus.Observer, value float64, trace string) {
	if e, ok := o.(prometheus.ExemplarObserver); ok && trace != "" {
		e.ObserveWithExemplar(value, Labels(trace))
		return
	}
	o.Observe(value)
}
