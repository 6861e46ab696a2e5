package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/source"
)

// readerHelp ends the help of the commands that read a store.
const readerHelp = `

It reads through a server, sqlstore or etcd, at --endpoint, or the database at --data-dir or --datastore, also
beside its servers, and changes nothing.`

// reader has the flags of the commands that read a store.
type reader struct {
	asker
	login

	cfg sqlstore.Config
}

// databaseFlags are those that name a database.
var databaseFlags = []string{"data-dir", "datastore"}

func (r *reader) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	r.asker.register(f, "client URLs of the servers: http, https, unix or unixs")
	r.login.register(f)
	registerDatabase(f, &r.cfg)
}

// open opens the store that the flags name, or else the variables. Errors: [errSettings], those of opening it.
func (r *reader) open(cmd *cobra.Command) (source.Store, error) {
	flags := cmd.Flags()
	asked := given(flags)
	set := given(flags)
	if err := applyEnvironment(flags, set, os.LookupEnv); err != nil {
		return nil, err
	}
	database := false
	for _, name := range databaseFlags {
		database = database || asked[name] || set[name] && !asked["endpoint"] && !set["endpoint"]
		if asked[name] && asked["endpoint"] {
			return nil, fmt.Errorf("%w: give either --endpoint or --%s", errSettings, name)
		}
	}
	if !database {
		return r.server(cmd.Context())
	}
	v, err := r.cfg.OpenView(cmd.Context())
	if err != nil {
		return nil, err
	}
	return &source.Database{View: v}, nil
}

// server connects to a server.
func (r *reader) server(ctx context.Context) (*source.Server, error) {
	targets, err := r.targets()
	if err != nil {
		return nil, err
	}
	cfg := clientv3.Config{
		Endpoints: r.endpoints, DialTimeout: r.timeout, Username: r.user, Logger: zap.NewNop(),
		MaxCallSendMsgSize: math.MaxInt32, // the server has a limit of its own
	}
	for i, e := range cfg.Endpoints {
		if !strings.Contains(e, "://") && r.secure() {
			cfg.Endpoints[i] = "https://" + e
		}
	}
	if cfg.TLS, err = r.clientTLS(); err != nil {
		return nil, err
	}
	if cfg.Password, err = r.password(); err != nil {
		return nil, err
	}
	client, err := clientv3.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", strings.Join(r.endpoints, ", "), err)
	}
	if err := r.reach(ctx, client, targets); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	t := targets[0]
	t.client.Timeout = r.timeout
	if transport, ok := t.client.Transport.(*http.Transport); ok {
		transport.DisableKeepAlives = false
	}
	return &source.Server{Client: client, Times: &source.Times{URL: t.url, Client: t.client}}, nil
}

// clientTLS returns nil unless an endpoint uses TLS.
func (r *reader) clientTLS() (*tls.Config, error) {
	for _, e := range r.endpoints {
		if strings.HasPrefix(e, "https:") || strings.HasPrefix(e, "unixs:") || r.secure() {
			return r.tls()
		}
	}
	return nil, nil
}

// reach fails if no server answers: later requests wait for one as long as it takes.
func (r *reader) reach(ctx context.Context, client *clientv3.Client, targets []target) error {
	var errs []error
	for i, e := range client.Endpoints() {
		err := r.answers(ctx, client, e, targets[i])
		if err == nil {
			return nil
		}
		if r.user == "" && refusesLogin(err) {
			return fmt.Errorf("%s asks for a user: %w; give --user and --password-file", e, err)
		}
		errs = append(errs, fmt.Errorf("%s does not answer: %w; check that the server is running, and that this is "+
			"one of its client URLs", e, err))
	}
	return errors.Join(errs...)
}

// answers fails if a server does not answer. A client of gRPC waits until it can connect, without saying why it cannot,
// so answers connects once before, by HTTP. What else fails of that does not matter: the URL may be for gRPC only.
func (r *reader) answers(ctx context.Context, client *clientv3.Client, endpoint string, t target) error {
	asking, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	resp, err := r.get(asking, t, "/version")
	if err == nil {
		_ = resp.Body.Close()
	}
	if failed, ok := errors.AsType[*net.OpError](err); ok && failed.Op == "dial" {
		return failed
	}
	if failed, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return failed
	}
	ctx, cancel = context.WithTimeout(ctx, r.timeout)
	defer cancel()
	_, err = client.Status(ctx, endpoint)
	return err
}

// refusesLogin reports whether a server has answered that it wants to know the user, or another one.
func refusesLogin(err error) bool {
	refused, ok := errors.AsType[rpctypes.EtcdError](err)
	return ok && slices.Contains([]codes.Code{
		codes.InvalidArgument, codes.Unauthenticated, codes.PermissionDenied,
	}, refused.Code())
}

// reads runs f on the store that the flags name.
func (r *reader) reads(
	f func(c *cobra.Command, s source.Store, args []string) error,
) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		s, err := r.open(c)
		if err != nil {
			return err
		}
		return errors.Join(f(c, s, args), s.Close())
	}
}
