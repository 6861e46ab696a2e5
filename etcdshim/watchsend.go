package etcdshim

import (
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"

	"github.com/sqlstore/sqlstore/internal/store"
)

// WatchSend is a kind of response on a watch stream.
type WatchSend int

// The kinds of responses: with events, about a watch that is created or canceled, and about progress.
const (
	WatchEvents WatchSend = iota
	WatchControl
	WatchProgress
)

// timedSends is how many responses with events there are for each one that is timed: reading the clock twice for each
// would slow down fast watches.
const timedSends = 16

// timedSend is send, and reports how long it took.
func (s *watch) timedSend(stream grpc.ServerStream, r *store.WatchResponse) error {
	kind := WatchEvents
	switch {
	case r.Created || r.Canceled:
		kind = WatchControl
	case len(r.Events) == 0:
		kind = WatchProgress
	}
	if s.sent == nil || kind == WatchEvents && rand.Uint32()%timedSends != 0 {
		return s.send(stream, r)
	}
	events, began := len(r.Events), time.Now()
	err := s.send(stream, r)
	s.sent(kind, events, time.Since(began))
	return err
}
