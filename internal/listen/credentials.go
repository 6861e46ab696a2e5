package listen

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Credentials returns the credentials of a gRPC server behind a [Split]. The handshake is already done, so they only
// pass its result to grpc. One server may serve listeners with and without TLS.
func Credentials() credentials.TransportCredentials {
	return splitCredentials{insecure.NewCredentials()}
}

type splitCredentials struct {
	credentials.TransportCredentials
}

func (c splitCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	var state tls.ConnectionState
	switch conn := conn.(type) {
	case *tls.Conn:
		state = conn.ConnectionState()
	case *openedConn:
		state = conn.tls.ConnectionState()
	default:
		return c.TransportCredentials.ServerHandshake(conn)
	}
	return conn, credentials.TLSInfo{
		State:          state,
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}, nil
}

func (c splitCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("listen: server credentials used by a client")
}

func (c splitCredentials) Clone() credentials.TransportCredentials { return c }
