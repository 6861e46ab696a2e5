package users

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"path/filepath"
	"testing"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/internal/testing/authority"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// jwtFlag returns --auth-token for signed tokens with a new key.
func jwtFlag(t *testing.T) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{
		"private": {Type: "PRIVATE KEY", Bytes: private}, "public": {Type: "PUBLIC KEY", Bytes: public},
	} {
		authority.Write(t, filepath.Join(dir, name), pem.EncodeToMemory(block))
	}
	return fmt.Sprintf("--auth-token=jwt,pub-key=%s/public,priv-key=%s/private,sign-method=RS256,ttl=10m", dir, dir)
}

// Signed tokens are valid on all replicas and across restarts, and old after a change of users or roles, as in etcd;
// each server also takes the other's, for the key is the same.
func TestJWT(t *testing.T) {
	args := append(cheap, jwtFlag(t))
	started := servers.Targets(t, args...)
	target, etcd := connect(t, started[0]), connect(t, servers.Etcd(t, args...))
	for _, c := range []*client{etcd, target} {
		c.enable()
	}
	for _, maker := range []*client{etcd, target} {
		root, alice := maker.login("root", rootPassword), maker.login("alice", "the password of alice")
		everywhere := append([]*launch.Server{}, started...)
		check := func(want error, wantAdmin bool) {
			t.Helper()
			clients := []*client{etcd}
			for _, s := range everywhere {
				clients = append(clients, connect(t, s))
			}
			for i, c := range clients {
				for name, err := range map[string]error{
					"put": c.put(alice, "a/k", "v"), "get": c.get(alice, "a/k", false),
					"serializable get": c.get(alice, "a/k", true),
				} {
					if want == nil && err != nil || want != nil && !is(err, want) {
						t.Errorf("server %d: %s: %v, want %v", i, name, err, want)
					}
				}
				_, err := c.auth.UserList(c.as(root), &pb.AuthUserListRequest{})
				if (err == nil) != wantAdmin {
					t.Errorf("server %d: root lists users: %v", i, err)
				}
				if err := c.put(alice+"x", "a/k", "v"); !is(err, rpctypes.ErrGRPCInvalidAuthToken) {
					t.Errorf("server %d: a forged token: %v", i, err)
				}
			}
		}
		check(nil, true)
		for _, s := range started {
			s.Kill()
		}
		for _, s := range started {
			s.Restart(t)
		}
		check(nil, true)
		for i, c := range []*client{etcd, connect(t, started[0])} {
			key := []byte(fmt.Sprint("other", maker == etcd))
			_, err := c.auth.RoleGrantPermission(c.as(root), &pb.AuthRoleGrantPermissionRequest{
				Name: "a", Perm: &authpb.Permission{PermType: authpb.Permission_READWRITE, Key: key},
			})
			if err != nil {
				t.Fatalf("server %d: %v", i, status.Convert(err))
			}
		}
		check(rpctypes.ErrGRPCAuthOldRevision, true)
	}
}

// Guessing passwords is slow, whoever exists, and does not stop others.
func TestGuessingIsRefused(t *testing.T) {
	c := connect(t, servers.OnlyTarget(t, cheap...))
	root := c.enable()
	for _, user := range []string{"alice", "nobody"} {
		const guesses = 200
		refused := make(chan bool, guesses)
		for i := range guesses {
			go func() {
				_, err := c.auth.Authenticate(c.as(""), &pb.AuthenticateRequest{Name: user, Password: fmt.Sprint(i)})
				switch {
				case is(err, rpctypes.ErrGRPCAuthFailed):
					refused <- false
				case status.Code(err).String() == "ResourceExhausted":
					refused <- true
				default:
					t.Errorf("a wrong password of %s: %v", user, err)
					refused <- false
				}
			}()
		}
		count := 0
		for range guesses {
			if <-refused {
				count++
			}
		}
		if count < guesses/2 {
			t.Errorf("%d of %d guesses of %s's password were refused", count, guesses, user)
		}
		c.must(c.put(root, "k", "v"))
	}
}
