package main_test

import (
	"crypto/tls"
	"errors"
	"path/filepath"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/sqlstore/sqlstore/internal/testing/authority"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
)

// The calls with which Kamaji's driver for etcd (internal/datastore/etcd.go of clastix/kamaji) prepares, checks and
// removes a tenant, whose kube-apiserver has a certificate of its own.
func TestKamajiOverEtcdsAPI(t *testing.T) {
	const tenant = "default_tenant"
	dir, ours := t.TempDir(), authority.New(t)
	file := func(name string) string { return filepath.Join(dir, name) }
	certificate, key := ours.Issue("server")
	authority.Write(t, file("crt"), certificate)
	authority.Write(t, file("key"), key)
	authority.Write(t, file("ca"), ours.PEM())
	l := newLog()
	launch.Start(t, launch.Config{Log: l, Args: []string{
		"--listen-client-urls", "https://127.0.0.1:0", "--cert-file", file("crt"), "--key-file", file("key"),
		"--trusted-ca-file", file("ca"), "--client-cert-auth",
	}})
	address := secureEndpoint(t, l)
	as := func(name string) *clientv3.Client {
		t.Helper()
		config := &tls.Config{
			RootCAs: ours.Pool(), Certificates: []tls.Certificate{ours.Pair(name)}, MinVersion: tls.VersionTLS12,
		}
		c, err := clientv3.New(clientv3.Config{
			Endpoints: []string{"https://" + address}, TLS: config, Logger: zap.NewNop(),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	ctx, root := t.Context(), as("root")
	done := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	fails := func(_ any, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Fatalf("%v, want %v", err, want)
		}
	}
	check := func(resp any, err error) func(want error) { return func(want error) { fails(resp, err, want) } }

	withoutPassword := &clientv3.UserAddOptions{NoPassword: true}
	done(root.UserAddWithOptions(ctx, "root", "", withoutPassword))
	done(root.UserGrantRole(ctx, "root", "root"))
	done(root.AuthEnable(ctx))
	done(root.AuthStatus(ctx))
	check(root.UserGet(ctx, tenant))(rpctypes.ErrUserNotFound)
	done(root.UserAddWithOptions(ctx, tenant, "password", withoutPassword))
	check(root.RoleGet(ctx, tenant))(rpctypes.ErrRoleNotFound)
	done(root.RoleAdd(ctx, tenant))
	readWrite := clientv3.PermissionType(clientv3.PermReadWrite)
	done(root.RoleGrantPermission(ctx, tenant, "/"+tenant+"/", `\0`, readWrite)) // two characters
	done(root.UserGrantRole(ctx, tenant, tenant))
	user, err := root.UserGet(ctx, tenant)
	if err != nil || len(user.Roles) != 1 || user.Roles[0] != tenant {
		t.Fatalf("%v, %v", user, err)
	}

	own := as(tenant)
	done(own.Put(ctx, "/"+tenant+"/registry/a", "1"))
	done(own.Get(ctx, "/"+tenant+"/", clientv3.WithPrefix()))
	done(own.Status(ctx, own.Endpoints()[0]))
	check(own.Get(ctx, "/another/registry/a"))(rpctypes.ErrPermissionDenied)
	check(own.UserGet(ctx, "root"))(rpctypes.ErrPermissionDenied)

	done(root.Delete(ctx, "/"+tenant+"/", clientv3.WithPrefix()))
	done(root.RoleDelete(ctx, tenant))
	check(own.Put(ctx, "/"+tenant+"/registry/a", "1"))(rpctypes.ErrPermissionDenied)
	done(root.UserDelete(ctx, tenant))
}
