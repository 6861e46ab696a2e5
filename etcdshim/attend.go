package etcdshim

import (
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// streamTimeout is how long a client may read nothing of a list that is being sent. A list keeps rows from being
// deleted.
const streamTimeout = time.Minute

var errStalled = status.Error(codes.Unavailable,
	"etcdserver: the client has read nothing of the stream for too long; list again")

// attended is a stream with a time limit on its sends.
type attended struct {
	grpc.ServerStream
	since atomic.Pointer[time.Time] // when the current send began, nil if there is none
}

func (a *attended) SendMsg(m any) error {
	now := time.Now()
	a.since.Store(&now)
	defer a.since.Store(nil)
	return a.ServerStream.SendMsg(m)
}

// attend runs serve, and abandons it if one of its sends takes longer than timeout. Only the handler's return ends a
// send that waits for a client. So serve runs in another goroutine, and fails once attend has returned.
func attend(stream grpc.ServerStream, timeout time.Duration, serve func(grpc.ServerStream) error) error {
	a := &attended{ServerStream: stream}
	done := make(chan error, 1)
	go func() { done <- serve(a) }()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		select {
		case err := <-done:
			return err
		case now := <-timer.C:
			left := timeout
			if since := a.since.Load(); since != nil {
				if left -= now.Sub(*since); left <= 0 {
					return errStalled
				}
			}
			timer.Reset(left)
		}
	}
}
