package docs

import (
	"context"
	"crypto/tls"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/internal/testing/authority"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pages"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// TestReplicaOverTLS starts a replica with the flags of docs/postgres.md: it requires client certificates, verifies the
// certificate of Postgres, and finds the server among three hosts, of which the others are down.
func TestReplicaOverTLS(t *testing.T) {
	flags := pages.Own(t, "sqlstore")
	clients, databases, dir := authority.New(t), authority.New(t), t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		authority.Write(t, path, content)
		return path
	}
	free := func() string {
		address, err := launch.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		return address
	}
	cert, key := clients.Issue("sqlstore")
	endpoint, postgres := free(), startPostgres(t, databases)
	if flags[0] != "serve" {
		t.Fatalf("the page calls sqlstore %s, want serve", flags[0])
	}
	launch.Start(t, launch.Config{Args: pages.Replace(t, flags[1:],
		"10.0.0.5:2379", endpoint,
		"server.crt", file("server.crt", cert), "server.key", file("server.key", key),
		"pg-ca.crt", file("pg-ca.crt", databases.PEM()), "ca.crt", file("ca.crt", clients.PEM()),
		"pg1,pg2,pg3", free()+","+postgres+","+free(),
		"/etc/sqlstore/postgres-password", file("postgres-password", []byte("secret\n")))})

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	secure := &tls.Config{RootCAs: clients.Pool(), Certificates: []tls.Certificate{clients.Pair("client")}}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"https://" + endpoint}, TLS: secure})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Put(ctx, "a", "1"); err != nil {
		t.Fatal(err)
	}
	if got, err := client.Get(ctx, "a"); err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "1" {
		t.Errorf("got %v, %v, want a=1", got, err)
	}
	members, err := client.MemberList(ctx)
	// launch has added an address of its own.
	if err != nil || len(members.Members) != 1 || members.Members[0].Name != "a" ||
		!slices.Contains(members.Members[0].ClientURLs, "https://"+endpoint) {
		t.Errorf("members %v, %v, want a at https://%s", members, err, endpoint)
	}
	if err := greet(endpoint, &tls.Config{RootCAs: clients.Pool(), NextProtos: []string{"h2"}}); err == nil ||
		!strings.Contains(err.Error(), "certificate required") {
		t.Errorf("a client without a certificate: %v", err)
	}
}

// greet waits for the first byte from the server, which it sends once it has accepted the client's certificate.
func greet(address string, config *tls.Config) error {
	conn, err := tls.Dial("tcp", address, config)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}

// startPostgres starts a server with TLS and with the role and the database of docs/postgres.md. It returns
// the address.
func startPostgres(t *testing.T, ca *authority.Authority) string {
	t.Helper()
	s := pgserver.Start(t, pgserver.Options{})
	conn, err := pgx.Connect(t.Context(), s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		"CREATE ROLE sqlstore LOGIN PASSWORD 'secret'",
		"CREATE DATABASE sqlstore OWNER sqlstore TEMPLATE template0 ENCODING 'UTF8'",
	} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	_ = conn.Close(t.Context())
	cert, key := ca.Issue("postgres", s.Host())
	if err := s.ServeTLS(cert, key, nil); err != nil {
		t.Fatal(err)
	}
	return s.Addr()
}
