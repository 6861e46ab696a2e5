// Program etcd runs sqlstore with the command line that it gets. The members of a cluster get a Postgres database of
// their own; a cluster of one has its default, SQLite.
//
// Etcd's tests pass hardly any environment on, so its own settings are in the file etcd.json next to it.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// settings are those of etcd.json.
type settings struct {
	Sqlstore string // the program
	Etcd     string // etcd itself, for its proxies
	Postgres string // DSN of a server where databases may be created
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "test's etcd:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b, err := os.ReadFile(filepath.Join(filepath.Dir(self), "etcd.json"))
	if err != nil {
		return err
	}
	var s settings
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	if err := endWithParent(); err != nil {
		return err
	}
	env := os.Environ()
	if len(args) > 0 && (args[0] == "gateway" || args[0] == "grpc-proxy") {
		return syscall.Exec(s.Etcd, append([]string{"etcd"}, args...), env)
	}
	if strings.Contains(value(args, "initial-cluster"), ",") {
		cluster := value(args, "initial-cluster-token") + " " + value(args, "initial-cluster")
		dsn, err := database(s.Postgres, filepath.Dir(value(args, "data-dir")), cluster)
		if err != nil {
			return err
		}
		env = append(env, "SQLSTORE_DATASTORE="+dsn)
	}
	return syscall.Exec(s.Sqlstore, append([]string{"etcd"}, args...), env)
}

// value returns the value of a flag, or "".
func value(args []string, flag string) string {
	for i, arg := range args {
		name, value, ok := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case name != flag:
		case ok:
			return value
		case i+1 < len(args):
			return args[i+1]
		}
	}
	return ""
}

// database returns the DSN of the cluster's database, which the first of its members creates. A test's clusters differ
// in their tokens or addresses, and those of different tests in the directory in which their data directories are.
func database(server, dir, cluster string) (string, error) {
	sum := sha256.Sum256([]byte(dir + " " + cluster))
	name := "cluster_" + hex.EncodeToString(sum[:8])
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	// Of the members that start at once, one creates it and the others get one of these errors.
	const duplicateDatabase, uniqueViolation = "42P04", "23505"
	_, err = conn.Exec(ctx, "CREATE DATABASE "+name+" TEMPLATE template0 ENCODING 'UTF8'")
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); err != nil &&
		(!ok || pgErr.Code != duplicateDatabase && pgErr.Code != uniqueViolation) {
		return "", err
	}
	u, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	u.Path = "/" + name
	return u.String(), nil
}
