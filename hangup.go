package sqlstore

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/sqlstore/sqlstore/internal/listen"
)

// hangupPeriod is how often the server checks whether the client of a long HTTP/1 request is still connected.
const hangupPeriod = 15 * time.Second

type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// watchHangups cancels the contexts of requests whose clients have disconnected. net/http does that only while it has
// nothing to read: once a client has sent more than its request, nobody reads on, and a stream without events would
// never end.
func watchHangups(period time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, ok := r.Context().Value(connKey{}).(net.Conn)
		if !ok || r.ProtoMajor != 1 { // HTTP/2 connections are always read
			next.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		var look func()
		look = func() {
			if listen.HungUp(conn) {
				cancel()
			} else if ctx.Err() == nil {
				time.AfterFunc(period, look)
			}
		}
		first := time.AfterFunc(period, look) // most requests end earlier
		defer first.Stop()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
