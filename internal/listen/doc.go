// Package listen opens the addresses that a server listens on.
//
// It parses etcd's listen URLs (http, https, unix, unixs), refuses plaintext beyond the loopback interface unless that
// is allowed, serves TLS from files that are read again when they change, and splits the connections of one port
// between a gRPC server and an HTTP server.
//
// # The split
//
// gRPC runs on grpc-go's own transport, which costs far less than its http.Handler. So the split is decided once per
// connection:
//
//   - without TLS, by the first bytes: HTTP/2's preface means gRPC, anything else is HTTP/1;
//   - with TLS, by ALPN: a client that also offers http/1.1 may be either (a browser, curl, a few gRPC libraries) and
//     goes to the HTTP server, which speaks HTTP/2 and can pass gRPC requests to
//     [google.golang.org/grpc.Server.ServeHTTP]. The first request of a client that offers only h2 decides.
package listen
