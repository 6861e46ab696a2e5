// Package listen opens the addresses that a server listens on.
//
// It reads etcd's listen URLs (http, https, unix, unixs), refuses plaintext beyond the loopback unless that is asked
// for, serves TLS from files that are read again when they change, and splits the connections of one port between a
// gRPC server and an HTTP server.
//
// # The split
//
// gRPC runs on grpc-go's own transport, which costs far less than its http.Handler, so the choice is made once a
// connection and never looks at a request:
//
//   - without TLS, by the first bytes: HTTP/2's preface means gRPC, all else is HTTP/1;
//   - with TLS, by ALPN: a client that offers nothing but h2 is a gRPC client. One that offers http/1.1 as well may be
//     either (a browser, curl, a few gRPC libraries) and goes to the HTTP server, which speaks HTTP/2 and can hand gRPC
//     requests over to [google.golang.org/grpc.Server.ServeHTTP].
package listen
