package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sqlstore/sqlstore/etcdshim"
)

// watchSends are the durations of sending to watch streams.
type watchSends struct{ events, perEvent, control, progress prometheus.Observer }

func newWatchSends(m *Metrics) watchSends {
	buckets := prometheus.ExponentialBuckets(0.001, 2, 14)
	seconds := func(name, help string) prometheus.Observer {
		return m.histogram("etcd_debugging_server_watch_send_loop_"+name, help, buckets)
	}
	return watchSends{
		events: seconds("watch_stream_duration_seconds",
			"Duration of sending a response with events; about every 16th is timed."),
		perEvent: seconds("watch_stream_duration_per_event_seconds",
			"The same divided by the number of events."),
		control: seconds("control_stream_duration_seconds",
			"Duration of sending that a watch is created or canceled."),
		progress: seconds("progress_duration_seconds", "Duration of sending a progress notification."),
	}
}

// WatchSent records the duration of sending a response to a watch stream.
func (m *Metrics) WatchSent(kind etcdshim.WatchSend, events int, took time.Duration) {
	seconds := took.Seconds()
	switch kind {
	case etcdshim.WatchControl:
		m.watchSends.control.Observe(seconds)
	case etcdshim.WatchProgress:
		m.watchSends.progress.Observe(seconds)
	case etcdshim.WatchEvents:
		m.watchSends.events.Observe(seconds)
		m.watchSends.perEvent.Observe(seconds / float64(max(events, 1)))
	}
}
