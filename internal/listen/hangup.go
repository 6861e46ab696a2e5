package listen

import (
	"context"
	"net"
	"net/http"
	"time"
)

// HangupPeriod is how often the server checks whether the client of a long HTTP/1 request is still connected.
const HangupPeriod = 15 * time.Second

type connKey struct{}

// WithConn adds the connection to the context of its requests, for [WatchHangups] and [ShowTLS].
func WithConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// WatchHangups cancels the contexts of requests whose clients have disconnected. net/http does that only while it has
// nothing to read: once a client has sent more than its request, nobody reads on, and a stream without events would
// never end. It checks once in each period.
func WatchHangups(period time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, ok := r.Context().Value(connKey{}).(net.Conn)
		if !ok || r.ProtoMajor != 1 { // HTTP/2 connections are always read
			next.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		var check func()
		check = func() {
			if HungUp(conn) {
				cancel()
			} else if ctx.Err() == nil {
				time.AfterFunc(period, check)
			}
		}
		first := time.AfterFunc(period, check) // most requests end earlier
		defer first.Stop()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
