package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/load"
)

const benchName = "bench"

const benchHelp = `Measure how fast a server of sqlstore or etcd answers the requests that Kubernetes makes: create,
get, list (pages of 500 keys with their values), update and delete, and how long an update takes to reach a watch.

    sqlstore bench --endpoint http://127.0.0.1:2379
    sqlstore bench --endpoint https://10.0.0.5:2379 --cacert ca.crt --cert client.crt --key client.key \
        --callers 8 --size 4KiB --phases create,update,delete -o json

It writes new keys below --prefix and deletes them at the end, but their history takes space until it is compacted: on
a server with a small quota it may raise the alarm NOSPACE. Clients of a server in use notice it.

The exit code is 1 if a request failed.`

// cleanTimeout limits the deletion of the keys at the end.
const cleanTimeout = 10 * time.Second

// bencher has the flags of bench.
type bencher struct {
	reader
	output

	prefix      string
	connections int
	size        int64
	load        load.Config
}

func benchCommand() *cobra.Command {
	b := &bencher{}
	cmd := &cobra.Command{
		Use: benchName, Short: "Measure how fast a running server, sqlstore or etcd, answers", Long: benchHelp,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			context.AfterFunc(ctx, stop) // a second signal ends the process
			if err := applyEnvironment(c.Flags(), given(c.Flags()), os.LookupEnv); err != nil {
				return err
			}
			return b.run(ctx, c.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&b.prefix, "prefix", "/sqlstore-bench/", "where the keys are, in a directory of their own")
	f.IntVar(&b.load.Callers, "callers", 64, "requests at once")
	f.IntVar(&b.connections, "connections", 8, "connections that the callers share")
	f.IntVar(&b.load.Keys, "keys", 10000, "number of keys")
	bytesVar(f, &b.size, "size", 1<<10, "size of a value")
	durationVar(f, &b.load.Duration, "duration", 10*time.Second, "the most that a phase takes")
	f.StringSliceVar(&b.load.Phases, "phases", load.Phases, "what to measure")
	b.output.register(cmd, "table", "json", "yaml")
	b.asker.register(f, "client URLs of the servers: http, https, unix or unixs")
	b.login.register(f)
	return cmd
}

func (b *bencher) run(ctx context.Context, out io.Writer) (err error) {
	if err := b.check(); err != nil {
		return err
	}
	l := &b.load
	l.Timeout = b.timeout
	l.Size, l.Prefix = int(b.size), b.prefix+rand.Text()+"/"
	for range min(b.connections, l.Callers) {
		s, err := b.server(ctx)
		if err != nil {
			return err
		}
		defer s.Close()
		l.Clients = append(l.Clients, s.Client)
	}
	defer func() { err = errors.Join(err, clean(l.Clients[0], l.Prefix)) }()
	var results []load.Result
	if b.form == "table" {
		printResult(out, "PHASE", "REQUESTS", "PER SECOND", "P50", "P90", "P99", "MAX", "FAILED")
	}
	err = load.Run(ctx, *l, func(r load.Result) {
		results = append(results, r)
		if b.form == "table" {
			printResult(out, r.Phase, strconv.Itoa(r.Requests), strconv.FormatFloat(r.PerSecond, 'f', 0, 64),
				readable(r.P50), readable(r.P90), readable(r.P99), readable(r.Max), strconv.Itoa(r.Failed))
		}
	})
	if err != nil {
		err = errors.New("interrupted: the rest is not measured")
	}
	printed := b.print(out, results, func(io.Writer) error { return nil })
	if err := errors.Join(err, printed); err != nil {
		return err
	}
	for _, r := range results {
		if r.Failed > 0 {
			return fmt.Errorf("%s: %d requests failed, the first with: %s", r.Phase, r.Failed, r.Error)
		}
	}
	return nil
}

func (b *bencher) check() error {
	if err := b.output.check(); err != nil {
		return err
	}
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"callers", int64(b.load.Callers)},
		{"connections", int64(b.connections)},
		{"keys", int64(b.load.Keys)},
		{"size", b.size},
	} {
		if n.value <= 0 || n.value > most {
			return fmt.Errorf("%w: --%s must be from 1 to %d", errSettings, n.name, most)
		}
	}
	if b.load.Duration <= 0 {
		return fmt.Errorf("%w: --duration must be positive", errSettings)
	}
	for _, phase := range b.load.Phases {
		if !slices.Contains(load.Phases, phase) {
			return fmt.Errorf("%w: --phases %q is not %s", errSettings, phase, oneOf(load.Phases))
		}
	}
	if !slices.Contains(b.load.Phases, "create") {
		return fmt.Errorf("%w: --phases must contain create: the others use its keys", errSettings)
	}
	return nil
}

// printResult prints a row of the table as soon as it is known; the columns have fixed widths.
func printResult(w io.Writer, phase string, cells ...string) {
	_, _ = fmt.Fprintf(w, "%-8s", phase)
	for _, c := range cells {
		_, _ = fmt.Fprintf(w, "%12s", c)
	}
	_, _ = fmt.Fprintln(w)
}

// clean deletes what is left of the keys, also after an interrupt.
func clean(c *clientv3.Client, prefix string) error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanTimeout)
	defer cancel()
	if _, err := c.Delete(ctx, prefix, clientv3.WithPrefix()); err != nil {
		return fmt.Errorf("keys are left: delete them with 'etcdctl del --prefix %s': %w", prefix, err)
	}
	return nil
}
