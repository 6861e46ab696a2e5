package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/client/pkg/v3/tlsutil"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/console"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/otlp"
	"github.com/sqlstore/sqlstore/compactor"
)

// settings are the flags of serve: the server's configuration, and what only the command needs.
type settings struct {
	config            sqlstore.Config
	configFile        string
	logLevel          string
	logFormat         string
	metrics           string
	tlsMinVersion     string
	tlsMaxVersion     string
	gateway           bool
	cipherSuites      []string
	compactionMode    string
	maxRequestBytes   int64
	maxTxnOps         uint
	keepaliveInterval time.Duration
	keepaliveTimeout  time.Duration
	authTokenTTL      uint
	bcryptCost        uint
	backups           backupFlags
	consoleWrites     bool
	traces            bool // to the collector that tracing names
	tracing           otlp.Config
}

// register defines the flags on f, with their defaults. Names and meanings are etcd's if etcd has the flag.
func (s *settings) register(f *pflag.FlagSet) {
	c := &s.config
	c.Console = func(ctx context.Context, local http.Handler) http.Handler {
		return console.New(ctx, local, console.Options{Logger: s.config.Logger, Writes: s.consoleWrites})
	}
	f.SortFlags = false
	f.StringVar(&s.configFile, "config-file", "",
		"YAML file with settings; its keys are these flags' names; flags and environment variables take precedence")

	f.StringVar(&c.Name, "name", "",
		"human-readable name of this member (default \"default\", on Postgres the host's name)")
	f.StringVar(&c.DataDir, "data-dir", "",
		"directory of a SQLite database (default \"<name>.sqlstore\", \"default.sqlstore\" without a name)")
	registerDatastore(f, c)
	durationVar(f, &c.DatastoreWait, "datastore-wait", time.Minute,
		"how long a start waits for an unreachable Postgres; 0 does not wait")
	durationVar(f, &c.DatastoreMaxStaleness, "datastore-max-staleness", 2*time.Second,
		"maximum age of the last Postgres acknowledgement that a linearizable read relies on; 0 makes each read wait "+
			"for its own commit")
	f.BoolVar(&c.UnsafeNoFsync, "unsafe-no-fsync", false, "acknowledge writes before they are on disk, or accept a "+
		"Postgres that does; a machine crash may lose or damage data")
	f.BoolVar(&c.NoPageChecksums, "no-page-checksums", false, "do not verify the checksums of a SQLite file's pages, "+
		"so that another program, such as Litestream, may write pages while the server runs")
	bytesVar(f, &c.QuotaBytes, "quota-backend-bytes", 0, "database size, such as 8GiB, that raises the NOSPACE "+
		"alarm; 0 is 2 GiB on SQLite and no quota on Postgres, negative is no quota")
	bytesVar(f, &c.DiskReserveBytes, "disk-reserve-bytes", 64<<20, "disk space that SQLite holds in reserve, and "+
		"releases on a full disk so that deletes and compaction still work; made where ten times as much is free; 0 "+
		"is none")
	bytesVar(f, &c.CacheBytes, "cache-bytes", 0,
		"memory for values, such as 256MiB; 0 is a sixteenth of the available memory, from 32 MiB to 4 GiB")

	f.StringSliceVar(&c.ListenClientURLs, "listen-client-urls", []string{"http://localhost:2379"},
		"URLs to serve clients on: http, https, unix or unixs; an http and an https URL may have the same port")
	f.StringSliceVar(&c.ListenClientHTTPURLs, "listen-client-http-urls", nil,
		"URLs to serve HTTP clients on; the client URLs then serve only gRPC")
	f.StringSliceVar(&c.AdvertiseClientURLs, "advertise-client-urls", nil,
		"client URLs to advertise (default: the listen URLs, with this machine's address instead of 0.0.0.0 or [::])")
	f.StringSliceVar(&c.ListenMetricsURLs, "listen-metrics-urls", nil,
		"additional URLs that serve /metrics and the health endpoints")
	f.StringSliceVar(&c.ListenObjectsURLs, "listen-objects-urls", nil,
		"URLs to serve the list/watch API over HTTP/JSON on (default: off)")
	f.StringSliceVar(&c.ListenConsoleURLs, "listen-console-urls", nil,
		"URLs to serve the web console on, such as http://127.0.0.1:2382; other machines need https, and "+
			"authentication or --client-cert-auth (default: off)")
	f.BoolVar(&s.consoleWrites, "console-writes", false,
		"let users of the web console put versions of keys back, and delete keys")
	f.BoolVar(&c.InsecurePlaintext, "insecure-plaintext", false,
		"allow listening without TLS where other machines can connect")
	f.BoolVar(&c.ReusePort, "socket-reuse-port", false,
		"let other processes listen on the same ports (SO_REUSEPORT)")
	f.BoolVar(&c.ReuseAddress, "socket-reuse-address", false,
		"listen on ports with connections in TIME_WAIT (SO_REUSEADDR)")
	f.BoolVar(&s.gateway, "enable-grpc-gateway", true, "serve etcd's JSON gateway")
	f.StringSliceVar(&c.CORS, "cors", nil, "origins whose web pages may use the JSON gateway: https://host:port, or * "+
		"for all; others can neither write nor open websockets, and the list/watch API accepts only listed origins "+
		"(default: none without TLS on the loopback interface, all elsewhere)")
	f.StringSliceVar(&c.HostWhitelist, "host-whitelist", nil, "host names to serve over HTTP without TLS, each in "+
		"full, or * for all (default: IP addresses, localhost and advertised names on the loopback interface, all "+
		"elsewhere)")
	f.StringVar(&c.TLS.Cert, "cert-file", "", "the server's TLS certificate chain; all TLS files are read again when "+
		"they change")
	f.StringVar(&c.TLS.Key, "key-file", "", "the private key of --cert-file")
	f.StringVar(&c.TLS.TrustedCA, "trusted-ca-file", "",
		"certificates of the authorities that sign client certificates")
	f.BoolVar(&c.TLS.RequireClientCert, "client-cert-auth", false,
		"refuse clients without a certificate signed by --trusted-ca-file")
	f.StringVar(&c.TLS.CRL, "client-crl-file", "", "list of revoked client certificates, in DER or PEM")
	f.StringSliceVar(&c.TLS.AllowedHosts, "client-cert-allowed-hostname", nil,
		"accept only client certificates for one of these hosts")
	f.StringSliceVar(&c.TLS.AllowedNames, "client-cert-allowed-cn", nil,
		"accept only client certificates with one of these common names")
	f.BoolVar(&c.AutoTLS, "auto-tls", false,
		"generate a certificate if --cert-file names none; it is kept in --data-dir")
	f.IntVar(&c.AutoTLSYears, "self-signed-cert-validity", 1, "years for which a generated certificate is valid, at "+
		"most 1000")
	f.StringVar(&s.tlsMinVersion, "tls-min-version", "TLS1.2", "oldest TLS version to accept: TLS1.2 or TLS1.3")
	f.StringVar(&s.tlsMaxVersion, "tls-max-version", "",
		"newest TLS version to accept: TLS1.2 or TLS1.3 (default: the newest)")
	f.StringSliceVar(&s.cipherSuites, "cipher-suites", nil, "cipher suites of TLS 1.2 to accept (default: Go's choice)")

	f.StringVar(&c.AuthToken, "auth-token", "simple", "kind of users' tokens: simple, or jwt with options, such as "+
		"jwt,pub-key=FILE,priv-key=FILE,sign-method=RS256,ttl=5m")
	f.UintVar(&s.authTokenTTL, "auth-token-ttl", 300, "seconds that a simple token lives after its last use")
	f.UintVar(&s.bcryptCost, "bcrypt-cost", 10,
		"cost of the hash of a new password, from 4 to 31; others count as the default")
	f.StringVar(&c.AuditLog, "audit-log", "",
		"file to log calls to, as JSON without values; - is standard output (default: off)")
	f.StringVar(&c.AuditLogLevel, "audit-log-level", "writes",
		"calls in the audit log: writes, which are changes and logins, or all")

	f.UintVar(&s.maxTxnOps, "max-txn-ops", 128, "maximum number of operations in a transaction")
	bytesVar(f, &s.maxRequestBytes, "max-request-bytes", 3<<19, "maximum size of a client's write request")
	f.Uint32Var(&c.MaxConcurrentStreams, "max-concurrent-streams", math.MaxUint32,
		"maximum number of open streams per client connection")
	durationVar(f, &c.KeepaliveMinTime, "grpc-keepalive-min-time", 5*time.Second,
		"minimum time between two pings from a client")
	durationVar(f, &s.keepaliveInterval, "grpc-keepalive-interval", 2*time.Hour,
		"idle time after which the server pings a client; 0 never pings")
	durationVar(f, &s.keepaliveTimeout, "grpc-keepalive-timeout", 20*time.Second,
		"how long the server waits for the answer to its ping; 0 waits forever")
	durationVar(f, &c.WatchProgressInterval, "watch-progress-notify-interval", 5*time.Second,
		"how often idle watches that asked for it get a progress notification; 10ms or more")

	f.StringVar(&s.compactionMode, "auto-compaction-mode", string(compactor.Periodic),
		"unit of --auto-compaction-retention: periodic (time) or revision")
	f.StringVar(&c.Compaction.Retention, "auto-compaction-retention", "0",
		"history to keep: a duration, a number of hours, or a number of revisions; 0 turns automatic compaction off")

	durationVar(f, &c.CorruptChecks.Period, "corrupt-check-time", 0, "how often to read and verify all rows, and "+
		"compare the keys in memory with them; 0 never does")
	f.BoolVar(&c.CorruptChecks.Initial, "initial-corrupt-check", false, "do the same at the start, which fails if the "+
		"database is corrupt; under etcd's command line --feature-gates=InitialCorruptCheck=true")
	durationVar(f, &c.CorruptChecks.CompactionPeriod, "compact-hash-check-time", 0, "how often to do the same if "+
		"there was a compaction since; 0 never does; under etcd's command line with "+
		"--feature-gates=CompactHashCheck=true")

	s.backups.register(f)

	f.UintVar(&c.DefragThresholdMegabytes, "bootstrap-defrag-threshold-megabytes", 0,
		"free space in SQLite's file that makes a start defragment it; 0 never does")

	f.StringVar(&s.logLevel, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&s.logFormat, "log-format", formatAuto,
		"json, console (human-readable), or auto: console on a terminal, json otherwise")
	durationVar(f, &c.WarningUnaryRequestDuration, "warning-unary-request-duration", 300*time.Millisecond,
		"duration above which a request is logged as slow; 0 logs none")
	durationVar(f, &c.WarningApplyDuration, "warning-apply-duration", 100*time.Millisecond,
		"duration above which a commit is logged, and counted, as slow; 0 logs none")
	f.StringSliceVar(&c.AcknowledgedConditions, "acknowledged-conditions", nil, "conditions, such as NoPageChecksums, "+
		"that are known and no cause for alarm: reported and marked, but logged at INFO")
	f.StringVar(&s.metrics, "metrics", "basic", "basic, or extensive, which adds histograms of call durations")
	f.BoolVar(&c.Profiling, "enable-pprof", false, "serve profiles under /debug/pprof/")

	f.BoolVar(&s.traces, "enable-distributed-tracing", false, "send traces to a collector of OpenTelemetry")
	f.StringVar(&s.tracing.Address, "distributed-tracing-address", "localhost:4317",
		"address of the collector, for OTLP over gRPC without TLS")
	f.StringVar(&s.tracing.Service, "distributed-tracing-service-name", "sqlstore", "name of the service in traces")
	f.StringVar(&s.tracing.Instance, "distributed-tracing-instance-id", "",
		"name of this server in traces, unique among those of the service (default: none)")
	f.IntVar(&s.tracing.PerMillion, "distributed-tracing-sampling-rate", 0, "traces to begin per million requests; "+
		"a client's trace is continued if the client records it, and never otherwise")
	allowEmpty(f)
}

// registerDatastore defines the flags that select the database.
func registerDatastore(f *pflag.FlagSet, c *sqlstore.Config) {
	requiredVar(f, &c.Datastore, "datastore", "sqlite", "database: sqlite for a file in the data directory, "+
		"sqlite:///path/to/file, or postgres://user@host:5432/database")
	f.StringVar(&c.DatastorePasswordFile, "datastore-password-file", "",
		"file with the password for Postgres, read for each new connection; takes precedence over one in --datastore")
	f.IntVar(&c.DatastoreMaxConns, "datastore-max-connections", 0,
		"maximum connections to Postgres, at least 4; 0 is pool_max_conns of --datastore, or 16")
}

// registerDatabase defines the flags of a command that works on the database without serving it. An empty directory
// must not become another one, or a server.
func registerDatabase(f *pflag.FlagSet, c *sqlstore.Config) {
	requiredVar(f, &c.DataDir, "data-dir", "default.sqlstore", "directory of a SQLite database")
	registerDatastore(f, c)
}

// most is larger than any limit of operations or bytes needs to be.
const most = 1 << 30

// finish checks the flags and converts them to the server's configuration.
func (s *settings) finish() error {
	c := &s.config
	if err := s.notNegative(); err != nil {
		return err
	}
	c.DataDir = dataDir(c)
	if c.DatastoreWait == 0 {
		c.DatastoreWait = -1
	}
	if c.DatastoreMaxStaleness == 0 {
		c.DatastoreMaxStaleness = -1
	}
	if c.DiskReserveBytes == 0 {
		c.DiskReserveBytes = -1
	}
	if c.WarningApplyDuration == 0 {
		c.WarningApplyDuration = -1
	}
	if c.WarningUnaryRequestDuration == 0 {
		c.WarningUnaryRequestDuration = -1
	}
	if _, err := parseLevel(s.logLevel); err != nil {
		return err
	}
	if err := s.finishTLS(); err != nil {
		return err
	}
	switch {
	case len(c.ListenClientURLs) == 0:
		return fmt.Errorf("%w: --listen-client-urls names no URL", errSettings)
	case s.logFormat != formatAuto && s.logFormat != formatJSON && s.logFormat != formatConsole:
		return fmt.Errorf("%w: --log-format %q is none of auto, json and console", errSettings, s.logFormat)
	case s.metrics != "basic" && s.metrics != "extensive":
		return fmt.Errorf("%w: --metrics %q is neither basic nor extensive", errSettings, s.metrics)
	case s.compactionMode != string(compactor.Periodic) && s.compactionMode != string(compactor.Revision):
		return fmt.Errorf("%w: --auto-compaction-mode %q is neither periodic nor revision", errSettings,
			s.compactionMode)
	case s.maxTxnOps == 0 || s.maxTxnOps > most || s.maxRequestBytes <= 0 || s.maxRequestBytes > most:
		return fmt.Errorf("%w: --max-txn-ops and --max-request-bytes must be from 1 to %d", errSettings, most)
	case c.MaxConcurrentStreams == 0:
		return fmt.Errorf("%w: --max-concurrent-streams must be positive", errSettings)
	case c.DatastoreMaxConns != 0 && (c.DatastoreMaxConns < 4 || c.DatastoreMaxConns > most):
		return fmt.Errorf("%w: --datastore-max-connections must be 0, or from 4 to %d", errSettings, most)
	case c.KeepaliveMinTime <= 0 || c.WatchProgressInterval <= 0:
		return fmt.Errorf("%w: --grpc-keepalive-min-time and --watch-progress-notify-interval must be positive",
			errSettings)
	}
	if err := s.checkTracing(); err != nil {
		return err
	}
	if err := s.backups.finish(c); err != nil {
		return err
	}
	if err := s.checkUnused(); err != nil {
		return err
	}
	c.AuthTokenTTL = time.Duration(min(s.authTokenTTL, most)) * time.Second
	c.BcryptCost = int(min(s.bcryptCost, most))
	if c.BcryptCost == 0 {
		c.BcryptCost = -1 // out of range, and not unset
	}
	c.ExtensiveMetrics = s.metrics == "extensive"
	c.Compaction.Mode = compactor.Mode(s.compactionMode)
	c.MaxTxnOps, c.MaxRequestBytes = int(s.maxTxnOps), int(s.maxRequestBytes)
	c.KeepaliveInterval, c.KeepaliveTimeout = orForever(s.keepaliveInterval), orForever(s.keepaliveTimeout)
	return c.Compaction.Check()
}

// dataDir returns the directory of a SQLite database, or its default.
func dataDir(c *sqlstore.Config) string {
	return cmp.Or(c.DataDir, cmp.Or(c.Name, "default")+".sqlstore")
}

// notNegative refuses negative values of flags for which 0 turns something off. The configuration has other values for
// that.
func (s *settings) notNegative() error {
	c := &s.config
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"datastore-wait", int64(c.DatastoreWait)},
		{"datastore-max-staleness", int64(c.DatastoreMaxStaleness)},
		{"disk-reserve-bytes", c.DiskReserveBytes},
		{"grpc-keepalive-interval", int64(s.keepaliveInterval)},
		{"grpc-keepalive-timeout", int64(s.keepaliveTimeout)},
		{"warning-unary-request-duration", int64(c.WarningUnaryRequestDuration)},
		{"warning-apply-duration", int64(c.WarningApplyDuration)},
	} {
		if f.value < 0 {
			return fmt.Errorf("%w: --%s must not be negative", errSettings, f.name)
		}
	}
	return nil
}

// orForever converts 0, which turns a timer off, to longer than anybody waits.
func orForever(d time.Duration) time.Duration {
	if d <= 0 {
		return 1<<63 - 1
	}
	return d
}

func (s *settings) finishTLS() (err error) {
	c := &s.config
	c.NoGateway = !s.gateway
	if c.AutoTLSYears <= 0 {
		return fmt.Errorf("%w: --self-signed-cert-validity must be positive", errSettings)
	}
	if c.TLS.MinVersion, err = parseTLSVersion("tls-min-version", s.tlsMinVersion, tls.VersionTLS12); err != nil {
		return err
	}
	if c.TLS.MaxVersion, err = parseTLSVersion("tls-max-version", s.tlsMaxVersion, 0); err != nil {
		return err
	}
	c.TLS.CipherSuites = nil
	for _, name := range s.cipherSuites {
		id, ok := tlsutil.GetCipherSuite(strings.TrimSpace(name))
		if !ok {
			return fmt.Errorf("%w: --cipher-suites: unknown suite %q", errSettings, name)
		}
		c.TLS.CipherSuites = append(c.TLS.CipherSuites, id)
	}
	return nil
}

func parseTLSVersion(name, text string, byDefault uint16) (uint16, error) {
	switch text {
	case "":
		return byDefault, nil
	case "TLS1.2":
		return tls.VersionTLS12, nil
	case "TLS1.3":
		return tls.VersionTLS13, nil
	}
	return 0, fmt.Errorf("%w: --%s %q is neither TLS1.2 nor TLS1.3", errSettings, name, text)
}

func parseLevel(name string) (slog.Level, error) {
	switch name {
	case "panic", "fatal": // etcd accepts these; sqlstore logs nothing above error
		return slog.LevelError, nil
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(name)); err != nil {
		return 0, fmt.Errorf("%w: --log-level %q is none of debug, info, warn and error", errSettings, name)
	}
	return level, nil
}
