// Package etcdshim serves the etcd v3.7 API from a [store.Store]: it checks requests as etcd does, translates them, and
// turns the engine's answers and errors into etcd's. Protobuf and etcd's error codes live here and nowhere else.
//
// # Listening
//
// gRPC is fast only on grpc-go's own HTTP/2 transport; grpc.Server.ServeHTTP costs about twice as much. So a listener
// for both gRPC and the JSON gateway must give whole connections to one of the two:
//
//   - plaintext: look at the first bytes. The HTTP/2 client preface ("PRI * HTTP/2.0\r\n") means gRPC, all else
//     HTTP/1.1.
//   - TLS: choose by ALPN in tls.Config.GetConfigForClient. A client that offers only "h2" is a gRPC client; one that
//     offers "http/1.1", too (browsers, curl, Go's net/http), gets "http/1.1" and with it the gateway. After the
//     handshake look at the first bytes as above, which serves clients without ALPN.
//
// Serve grpc.Server on the listener of the first kind (TLS is already done there, so it has no credentials of its own)
// and an http.Server with [Server.Gateway] on the other.
//
// grpc-go reads a plain *net.TCPConn or *net.UnixConn without holding a buffer while it is idle (32 KiB), but not a
// type that wraps one. So it is better to peek at the first bytes (MSG_PEEK) than to put them back, and to count bytes
// by [Server.Traffic] than in the connection.
//
// # Speed
//
// Answers with rows are encoded by hand, straight from the engine's rows into one buffer of the right size, and the hot
// requests are decoded by hand straight into the engine's types (see codec.go). Tests hold both to what protobuf does.
//
// # What differs from etcd on purpose
//
// Users and roles do not exist: Auth answers as an etcd whose auth was never enabled, and what would change users or
// roles is Unimplemented. Members cannot be added or removed.
package etcdshim
