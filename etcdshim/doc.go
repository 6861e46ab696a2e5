// Package etcdshim serves the etcd v3.7 API from a [store.Store]: it validates requests as etcd does, translates them,
// and converts the engine's answers and errors to etcd's. Protobuf and etcd's error codes exist only in this package.
//
// # Listening
//
// gRPC is fast only on grpc-go's own HTTP/2 transport; grpc.Server.ServeHTTP costs about twice as much. So a listener
// for both gRPC and the JSON gateway must pass whole connections to one of the two:
//
//   - plaintext: look at the first bytes. The HTTP/2 client preface ("PRI * HTTP/2.0\r\n") means gRPC, anything else
//     HTTP/1.1.
//   - TLS: choose by ALPN in tls.Config.GetConfigForClient. A client that offers only "h2" is a gRPC client; one that
//     also offers "http/1.1" (browsers, curl, Go's net/http) gets "http/1.1" and with it the gateway. After the
//     handshake look at the first bytes as above, which serves clients without ALPN.
//
// Serve grpc.Server on the listener of the first kind (TLS is already terminated, so it needs no credentials) and an
// http.Server with [Server.Gateway] on the other.
//
// While a connection is idle, grpc-go holds no read buffer (32 KiB) for a plain *net.TCPConn or *net.UnixConn, but does
// for a type that wraps one. So it is better to peek at the first bytes (MSG_PEEK) than to put them back, and to count
// bytes with [Server.Traffic] than in the connection.
//
// # Speed
//
// Answers with rows are encoded by hand, from the engine's rows directly into one buffer of the right size. The hot
// requests are decoded by hand directly into the engine's types (see codec.go). Tests compare both with protobuf.
//
// # Deliberate differences from etcd
//
// A watch ends when its right does; in etcd it goes on. Failed logins are limited; see package authn. Members cannot be
// added or removed. A transaction whose result gRPC could not send changes nothing.
package etcdshim
