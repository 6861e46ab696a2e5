package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

const kinePrefix = "KINE_" // of the variables for kine's flags

// kineFlags are the flags of kine 0.17.
type kineFlags struct {
	version                                          bool
	listenAddress, endpoint                          string
	caFile, certFile, keyFile                        string // of the connection to the database
	serverCertFile, serverKeyFile, trustedCAFile     string
	metricsBindAddress                               string
	metricsProfiling, metricsPlain, debug            bool
	logFormat                                        string
	maxOpen                                          int
	maxLifetime, maxIdleTime, progress, compactEvery time.Duration
	compactMinRetain                                 int64
}

// replacedByKine are the flags of serve in whose place kine has others.
var replacedByKine = map[string]bool{
	"config-file": true, "datastore": true, "data-dir": true, "listen-client-urls": true, "listen-metrics-urls": true,
	"insecure-plaintext": true, "client-cert-auth": true, "log-level": true, "datastore-max-connections": true,
	"auto-compaction-mode": true, "auto-compaction-retention": true, "enable-pprof": true,
}

// ofT4 are the flags of a driver of kine's that is not SQL.
var ofT4 = []string{
	"peer-bind-address", "peer-advertise-address", "s3-bucket", "s3-folder", "s3-endpoint", "s3-region",
	"s3-access-key", "s3-secret-key", "s3-session-token", "s3-profile", "s3-ca-bundle",
}

// tuning are the flags for kine's own statements and goroutines, which have no effect here.
var tuning = []string{
	"datastore-max-idle-connections", "datastore-poll-interval", "slow-sql-threshold", "slow-sql-warning-threshold",
	"emulated-etcd-version", "compact-interval-jitter", "compact-timeout", "compact-batch-size", "poll-batch-size",
}

// ofConnections are the flags of the connections to Postgres. As in kine, SQLite ignores them.
var ofConnections = []string{
	"ca-file", "cert-file", "key-file", "datastore-max-open-connections", "datastore-connection-max-lifetime",
	"datastore-connection-max-idle-time",
}

func (k *kineFlags) flagSet() *pflag.FlagSet {
	f := pflag.NewFlagSet(kineName, pflag.ContinueOnError)
	f.SortFlags = false
	f.SetOutput(os.Stderr)
	f.StringVar(&k.listenAddress, "listen-address", "0.0.0.0:2379", "host:port or unix://path to serve clients on")
	requiredVar(f, &k.endpoint, "endpoint", "", "database: sqlite://path or postgres://user:password@host/database "+
		"(default sqlite://./db/state.db)")
	f.StringVar(&k.caFile, "ca-file", "", "authorities that sign the certificate of Postgres")
	f.StringVar(&k.certFile, "cert-file", "", "client certificate for Postgres")
	f.StringVar(&k.keyFile, "key-file", "", "private key of --cert-file")
	f.Bool("skip-verify", false, "nothing, as in kine over Postgres: sslmode in --endpoint says what is verified")
	f.StringVar(&k.logFormat, "log-format", "plain", "plain or json")
	f.StringVar(&k.metricsBindAddress, "metrics-bind-address", ":8080", "host:port that serves /metrics; 0 is none")
	f.StringVar(&k.serverCertFile, "server-cert-file", "", "the server's TLS certificate chain")
	f.StringVar(&k.serverKeyFile, "server-key-file", "", "private key of --server-cert-file")
	f.StringVar(&k.trustedCAFile, "trusted-ca-file", "", "authorities that sign the clients' certificates")
	f.IntVar(&k.maxOpen, "datastore-max-open-connections", 0, "maximum connections to Postgres; 0 is the default")
	f.DurationVar(&k.maxLifetime, "datastore-connection-max-lifetime", 0, "how long a connection to Postgres is used")
	f.DurationVar(&k.maxIdleTime, "datastore-connection-max-idle-time", 2*time.Minute,
		"how long a connection to Postgres may be idle")
	f.BoolVar(&k.metricsProfiling, "metrics-enable-profiling", false, "serve profiles under /debug/pprof/")
	f.BoolVar(&k.metricsPlain, "metrics-ignore-tls-config", false, "serve metrics without TLS")
	f.DurationVar(&k.progress, "watch-progress-notify-interval", 5*time.Second,
		"how often watches that ask for it get progress notifications")
	f.DurationVar(&k.compactEvery, "compact-interval", 0, "compact automatically; 0 leaves it to the kube-apiserver")
	f.Int64Var(&k.compactMinRetain, "compact-min-retain", 1000, "how many revisions an automatic compaction retains")
	f.BoolVar(&k.debug, "debug", false, "log at the level debug")
	for _, name := range slices.Concat(tuning, ofT4) {
		f.String(name, "", "")
		f.Lookup(name).Hidden = true
	}
	f.BoolVarP(&k.version, "version", "v", false, "print the version")
	return f
}

func isKineFlag(name string) bool {
	return name != "version" && (&kineFlags{}).flagSet().Lookup(name) != nil
}

// kineVariable returns kine's environment variable for a flag.
func kineVariable(flag string) string {
	return kinePrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// parse reads the command line, and the variables of kine's flags that it does not set. Errors: [errSettings],
// [pflag.ErrHelp].
func (k *kineFlags) parse(flags *pflag.FlagSet, args []string, getenv func(string) (string, bool)) error {
	flags.Usage = func() {
		fmt.Fprintf(os.Stderr, "Usage of kine (flags of 'sqlstore serve' that kine lacks work, too):\n%s",
			(&kineFlags{}).flagSet().FlagUsages())
	}
	err := flags.Parse(twoDashes(flags, args))
	switch {
	case errors.Is(err, pflag.ErrHelp) || k.version:
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", errSettings, valueError(err))
	case flags.NArg() > 0:
		return fmt.Errorf("%w: kine takes flags only", errSettings) // the argument may hold a password
	}
	var errs []error
	(&kineFlags{}).flagSet().VisitAll(func(f *pflag.Flag) {
		name := kineVariable(f.Name)
		value, ok := getenv(name)
		if !ok || value == "" && ignoresEmpty(f) || flags.Changed(f.Name) || f.Name == "version" ||
			slices.Contains(ofT4, f.Name) {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			errs = append(errs, fmt.Errorf("%w: environment variable %s: %w", errSettings, name, valueError(err)))
		}
	})
	for _, name := range ofT4 {
		if flags.Changed(name) {
			errs = append(errs, fmt.Errorf("%w: --%s belongs to kine's driver t4: %s", errSettings, name,
				otherDrivers["t4"]))
		}
	}
	return errors.Join(errs...)
}

// twoDashes writes -endpoint as --endpoint: kine accepts both.
func twoDashes(flags *pflag.FlagSet, args []string) []string {
	args = slices.Clone(args)
	for i, a := range args {
		name, _, _ := strings.Cut(strings.TrimPrefix(a, "-"), "=")
		if strings.HasPrefix(a, "-") && len(name) > 1 && flags.Lookup(name) != nil { // not a value such as -1s
			args[i] = "-" + a
		}
	}
	return args
}

// withoutEffect returns the flags that were set and change nothing here.
func (k *kineFlags) withoutEffect(flags *pflag.FlagSet, onPostgres bool) (names []string) {
	for _, name := range tuning {
		if flags.Changed(name) {
			names = append(names, "--"+name)
		}
	}
	for _, name := range ofConnections {
		if !onPostgres && flags.Changed(name) {
			names = append(names, "--"+name+" (without Postgres)")
		}
	}
	if flags.Changed("skip-verify") {
		names = append(names, "--skip-verify")
	}
	if k.trustedCAFile != "" && !k.secure() {
		names = append(names, "--trusted-ca-file (without --server-cert-file)")
	}
	if k.compactEvery > 0 {
		names = append(names, "--compact-interval (any but 0 is the same)")
	}
	return names
}
