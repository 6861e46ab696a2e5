package users

import (
	"context"
	"crypto/tls"
	"math"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
)

// timeout limits what must happen soon.
const timeout = 30 * time.Second

// cheap makes hashes cheap.
var cheap = []string{"--unsafe-no-fsync", "--bcrypt-cost", "4"}

// rootPassword is the password of the user root.
const rootPassword = "the root password"

// client is a connection to one server.
type client struct {
	tb    testing.TB
	kv    pb.KVClient
	watch pb.WatchClient
	auth  pb.AuthClient
	maint pb.MaintenanceClient
	lease pb.LeaseClient
}

// connect connects to a server.
func connect(tb testing.TB, s *launch.Server) *client {
	tb.Helper()
	return connectTo(tb, s.Endpoint(), nil)
}

// connectTo connects to an address, over TLS if config is not nil.
func connectTo(tb testing.TB, address string, config *tls.Config) *client {
	tb.Helper()
	secure := insecure.NewCredentials()
	if config != nil {
		secure = credentials.NewTLS(config)
	}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(secure),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.WaitForReady(true)))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return &client{
		tb, pb.NewKVClient(conn), pb.NewWatchClient(conn), pb.NewAuthClient(conn),
		pb.NewMaintenanceClient(conn), pb.NewLeaseClient(conn),
	}
}

// as returns a context for calls with a token, "" for none.
func (c *client) as(token string) context.Context {
	ctx, cancel := context.WithTimeout(c.tb.Context(), timeout)
	c.tb.Cleanup(cancel)
	if token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, token)
}

// login returns a new token.
func (c *client) login(user, password string) string {
	c.tb.Helper()
	r, err := c.auth.Authenticate(c.as(""), &pb.AuthenticateRequest{Name: user, Password: password})
	if err != nil {
		c.tb.Fatalf("log in as %s: %v", user, err)
	}
	return r.Token
}

// must fails the test on an error.
func (c *client) must(err error) {
	c.tb.Helper()
	if err != nil {
		c.tb.Fatal(err)
	}
}

// enable creates root and the user alice, who may read and write what begins with a/, enables authentication, and
// returns a token of root.
func (c *client) enable() (root string) {
	c.tb.Helper()
	ctx := c.as("")
	for name, password := range map[string]string{"root": rootPassword, "alice": "the password of alice"} {
		_, err := c.auth.UserAdd(ctx, &pb.AuthUserAddRequest{Name: name, Password: password})
		c.must(err)
	}
	_, err := c.auth.UserGrantRole(ctx, &pb.AuthUserGrantRoleRequest{User: "root", Role: "root"})
	c.must(err)
	_, err = c.auth.RoleAdd(ctx, &pb.AuthRoleAddRequest{Name: "a"})
	c.must(err)
	_, err = c.auth.RoleGrantPermission(ctx, &pb.AuthRoleGrantPermissionRequest{Name: "a", Perm: &authpb.Permission{
		PermType: authpb.Permission_READWRITE, Key: []byte("a/"), RangeEnd: []byte("a0"),
	}})
	c.must(err)
	c.grant("", "alice", "a")
	_, err = c.auth.AuthEnable(ctx, &pb.AuthEnableRequest{})
	c.must(err)
	return c.login("root", rootPassword)
}

func (c *client) grant(token, user, role string) {
	c.tb.Helper()
	_, err := c.auth.UserGrantRole(c.as(token), &pb.AuthUserGrantRoleRequest{User: user, Role: role})
	c.must(err)
}

func (c *client) revoke(token, user, role string) {
	c.tb.Helper()
	_, err := c.auth.UserRevokeRole(c.as(token), &pb.AuthUserRevokeRoleRequest{Name: user, Role: role})
	c.must(err)
}

func (c *client) put(token, key, value string) error {
	_, err := c.kv.Put(c.as(token), &pb.PutRequest{Key: []byte(key), Value: []byte(value)})
	return err
}

func (c *client) get(token, key string, serializable bool) error {
	_, err := c.kv.Range(c.as(token), &pb.RangeRequest{Key: []byte(key), Serializable: serializable})
	return err
}
