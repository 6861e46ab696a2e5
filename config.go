package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/sqlstore/sqlstore/backend/postgres"
	"github.com/sqlstore/sqlstore/compactor"
	"github.com/sqlstore/sqlstore/internal/authn"
	"github.com/sqlstore/sqlstore/internal/listen"
	"github.com/sqlstore/sqlstore/internal/setting"
	"github.com/sqlstore/sqlstore/internal/tracing"
)

// ErrConfig is returned for unusable settings.
var ErrConfig = errors.New("bad configuration")

// ErrPlaintext is returned for a listener without TLS that other machines can reach. See [Config].InsecurePlaintext.
var ErrPlaintext = listen.ErrPlaintext

// defaultReserve is the default of [Config.DiskReserveBytes].
const defaultReserve = 64 << 20

// defaultApplyWarning is the default of [Config.WarningApplyDuration], as in etcd.
const defaultApplyWarning = 100 * time.Millisecond

// defaultWarning is the default of [Config.WarningUnaryRequestDuration], as in etcd.
const defaultWarning = 300 * time.Millisecond

// Config describes what to serve and where. The zero Config serves a temporary store on a free port of the loopback
// interface.
type Config struct {
	// Name is the name of the member. Default: the host's name on Postgres, where each replica needs its own, otherwise
	// "default".
	Name string
	// DataDir is the directory of the database if Datastore does not name one. If both are empty, the store is
	// temporary: nothing is synced, and Close removes it.
	DataDir string
	// Datastore is sqlite:///path/to/file, or "sqlite" or "" for sqlstore.db in DataDir, or
	// postgres://user@host:5432/database with pgx's parameters. Any number of servers may share a Postgres database.
	Datastore string
	// DatastorePasswordFile holds the password for Postgres and nothing else. It is read for each new connection and
	// takes precedence over a password in Datastore.
	DatastorePasswordFile string
	// DatastoreMaxConns limits the connections to Postgres. Default: pool_max_conns in Datastore, or 16.
	DatastoreMaxConns int
	// DatastoreWait is how long Start waits for an unreachable Postgres. Default 1 min; negative means no wait.
	DatastoreWait time.Duration
	// DatastoreMaxStaleness limits what a linearizable read can miss after a Postgres failover that this server did not
	// notice: only writes acknowledged within this time before the read. The default, 2 s, is shorter than a failover
	// takes. If negative, reads miss nothing, and each one waits for a separate commit.
	DatastoreMaxStaleness time.Duration

	// ListenClientURLs are http, https, unix or unixs URLs. Default http://127.0.0.1:0.
	ListenClientURLs []string
	// ListenClientHTTPURLs serve only HTTP to clients. If there are any, ListenClientURLs serve only gRPC.
	ListenClientHTTPURLs []string
	// ReusePort and ReuseAddress set SO_REUSEPORT and SO_REUSEADDR on TCP listeners.
	ReusePort, ReuseAddress bool
	// AdvertiseClientURLs appear in the member list. Default: the listen URLs, with this machine's address instead of a
	// wildcard such as 0.0.0.0.
	AdvertiseClientURLs []string
	// ListenMetricsURLs serve only health and metrics, in addition to the client URLs.
	ListenMetricsURLs []string
	// ListenObjectsURLs serve the list/watch API over HTTP/JSON. The API is off if there are none.
	ListenObjectsURLs []string
	// ListenConsoleURLs serve the pages of Console. Other machines may reach only https URLs, and get pages only while
	// etcd's authentication is enabled, or with a client certificate if TLS.RequireClientCert is set.
	ListenConsoleURLs []string
	// Console makes the handler for ListenConsoleURLs. It gets one that serves, within the process, the list/watch API,
	// /status and /metrics, without the guards of the listeners. When the server begins to stop, it ends ctx: what the
	// handler still does has to end then. A handler with a Close method is closed afterwards, before the database is.
	// The command sqlstore has a console; the library has none.
	Console func(ctx context.Context, local http.Handler) http.Handler
	// InsecurePlaintext allows listening without TLS where other machines can connect.
	InsecurePlaintext bool
	// CORS lists the origins whose web pages may use the JSON API and the other HTTP paths of the client URLs; "*"
	// allows all. If it is empty, connections without TLS over the loopback interface serve no other origin than their
	// own, and other connections serve all. ListenObjectsURLs accept only origins listed here. Pages of other origins
	// can neither write nor open a websocket.
	CORS []string
	// HostWhitelist lists the host names to serve over HTTP without TLS; "*" allows all, and there are no
	// other patterns. If it is empty, listeners on the loopback interface serve IP addresses, localhost and the names
	// in AdvertiseClientURLs, and so do listeners on all interfaces when a browser connects over the loopback
	// interface. Other connections may use all names. This stops DNS rebinding, where an attacker's name resolves to
	// 127.0.0.1.
	HostWhitelist []string
	// TLS names the files for https and unixs URLs.
	TLS TLSFiles
	// AutoTLS generates a certificate if TLS names none. It is kept in DataDir.
	AutoTLS bool
	// AutoTLSYears is how long a generated certificate is valid, in years, at most 1000. Default 1.
	AutoTLSYears int
	// NoGateway turns the JSON gateway off.
	NoGateway bool

	// AuthToken chooses the tokens of users: "simple" (the default), or "jwt" with etcd's options, such as
	// "jwt,pub-key=app.rsa.pub,priv-key=app.rsa,sign-method=RS256,ttl=10m".
	AuthToken string
	// AuthTokenTTL is how long a simple token lives after its last use. Default 5 min.
	AuthTokenTTL time.Duration
	// BcryptCost is the cost of the hashes of new passwords, from 4 to 31. Default 10, also if it is out of range.
	BcryptCost int
	// AuditLog is the file to which calls are logged as JSON; "-" is standard output, "" means no log.
	AuditLog string
	// AuditLogLevel is "writes" (the default) or "all".
	AuditLogLevel string

	// QuotaBytes is the database size that raises the NOSPACE alarm. 0 means 2 GiB on SQLite and no quota on Postgres;
	// negative means no quota.
	QuotaBytes int64
	// DiskReserveBytes is the disk space that is held in reserve next to a SQLite database and released when the disk
	// is full, so that deletes and compaction still work. Default 64 MiB, if the file system has ten times as much
	// free; negative means none.
	DiskReserveBytes int64
	// MaxRequestBytes (default 1.5 MiB), MaxTxnOps (default 128) and MaxConcurrentStreams (default unlimited) limit
	// requests.
	MaxRequestBytes      int
	MaxTxnOps            int
	MaxConcurrentStreams uint32
	// KeepaliveMinTime (default 5 s), KeepaliveInterval (default 2 h) and KeepaliveTimeout (default 20 s) are gRPC's
	// keepalive settings.
	KeepaliveMinTime, KeepaliveInterval, KeepaliveTimeout time.Duration
	// WatchProgressInterval is how often idle watches get a progress notify, 10 ms or more. Default 5 s.
	WatchProgressInterval time.Duration
	// CacheBytes limits the values kept in memory. Default: a sixteenth of the memory available to the process, from 32
	// MiB to 4 GiB.
	CacheBytes int64

	// Compaction configures automatic compaction. Its Logger is ignored.
	Compaction compactor.Config
	// CorruptChecks configures checks of the whole database. Default: none.
	CorruptChecks CorruptChecks
	// Backups configures continuous backups. Default: none.
	Backups Backups

	// UnsafeNoFsync acknowledges writes before they are on disk. A machine crash may lose or damage data.
	UnsafeNoFsync bool
	// NoPageChecksums makes a SQLite database read pages without verifying their checksums, so that another program,
	// such as Litestream, may copy the write-ahead log into the file while the server runs. Rows are verified all the
	// same.
	NoPageChecksums bool
	// AcknowledgedConditions lists the types of negative conditions that the operator knows of, such as
	// NoPageChecksums: they are reported and marked, but are no cause for alarm. Those that keep the server from
	// serving clients cannot be acknowledged.
	AcknowledgedConditions []string
	// ExtensiveMetrics adds histograms of call durations.
	ExtensiveMetrics bool
	// EtcdReady makes /readyz answer as etcd's does: a database without space is ready, as it serves reads.
	EtcdReady bool
	// WarningUnaryRequestDuration is the duration above which a unary gRPC call, or a request of the list/watch
	// API, is logged as slow. Default 300 ms; negative logs none.
	WarningUnaryRequestDuration time.Duration
	// WarningApplyDuration is the duration above which a commit is logged, and counted, as slow. Default 100 ms;
	// negative logs none.
	WarningApplyDuration time.Duration
	// DefragThresholdMegabytes is the free space in SQLite's file that makes a start defragment it. 0 never does.
	DefragThresholdMegabytes uint
	// Profiling serves /debug/pprof next to the metrics.
	Profiling bool
	// TracerProvider receives the spans of requests, and of what they wait for. Calls continue the trace that their
	// client names. Default: no spans.
	TracerProvider trace.TracerProvider
	// Logger receives the log. Default: no log.
	Logger *slog.Logger
}

// TLSFiles names the certificate files for TLS. They are read again when they change. The zero TLSFiles means no TLS.
type TLSFiles struct {
	// Cert and Key are the server's certificate chain and private key, in PEM.
	Cert, Key string
	// TrustedCA holds the authorities that sign client certificates, in PEM. As in etcd, setting it is enough to refuse
	// clients without such a certificate.
	TrustedCA string
	// RequireClientCert makes an empty TrustedCA an error.
	RequireClientCert bool
	// CRL is a list of revoked client certificates, in DER or PEM. A certificate is refused if its serial number, or
	// that of an authority in its chain, is on the list.
	CRL string
	// AllowedHosts are host names. If there are any, a client certificate must be for one of them.
	AllowedHosts []string
	// AllowedNames are common names, instead of AllowedHosts. If there are any, a client certificate must have one of
	// them.
	AllowedNames []string
	// MinVersion is the oldest TLS version to accept. 0 means TLS 1.2.
	MinVersion uint16
	// MaxVersion is the newest TLS version to accept. 0 means the newest that Go knows.
	MaxVersion uint16
	// CipherSuites are the TLS 1.2 cipher suites to accept. nil means Go's choice.
	CipherSuites []uint16
}

// wanted reports whether any TLS file is set, even if others are missing.
func (f TLSFiles) wanted() bool {
	return f.Cert != "" || f.Key != "" || f.TrustedCA != "" || f.RequireClientCert || f.CRL != "" ||
		len(f.AllowedHosts)+len(f.AllowedNames) > 0
}

// warning returns the duration above which a request is logged as slow, 0 to log none.
func (c *Config) warning() time.Duration {
	return max(0, cmp.Or(c.WarningUnaryRequestDuration, defaultWarning))
}

// bcryptCost returns the cost of new hashes. As in etcd, the default replaces one out of range.
func (c *Config) bcryptCost() int {
	if !authn.ValidCost(c.BcryptCost) {
		return authn.DefaultCost
	}
	return c.BcryptCost
}

func (c *Config) logger() *slog.Logger {
	if c.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Logger
}

func (c *Config) tracer() *tracing.Tracer { return tracing.New(c.TracerProvider) }

// OnPostgres reports whether Datastore names a Postgres database.
func (c *Config) OnPostgres() bool {
	scheme, _, found := strings.Cut(c.Datastore, "://")
	return found && (strings.EqualFold(scheme, "postgres") || strings.EqualFold(scheme, "postgresql"))
}

// Temporary reports whether the store is removed when its server closes.
func (c *Config) Temporary() bool { return c.Datastore == "" && c.DataDir == "" }

// datastoreForm ends the errors for a malformed datastore.
const datastoreForm = "write sqlite:///path/to/file, with three slashes before an absolute path, or " +
	"postgres://user@host:5432/database"

// file resolves Datastore to the path of a SQLite file, or "" for a temporary store. It refuses settings of the
// connections to Postgres. Errors: [ErrConfig].
func (c *Config) file() (string, error) {
	path, err := c.path()
	if err != nil {
		return "", err
	}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{setting.Name("DatastorePasswordFile"), c.DatastorePasswordFile != ""},
		{setting.Name("DatastoreMaxConns"), c.DatastoreMaxConns != 0},
	} {
		if f.set {
			return "", fmt.Errorf("%w: %s is for Postgres, but %s does not name a Postgres database", ErrConfig,
				f.name, setting.Name("Datastore"))
		}
	}
	return path, nil
}

func (c *Config) path() (string, error) {
	if err := notBlank(setting.Name("DataDir"), c.DataDir); err != nil {
		return "", err
	}
	switch {
	case strings.Contains(c.DataDir, "://"): // it may hold a password
		return "", fmt.Errorf("%w: %s is a URL instead of a directory: give it as %s", ErrConfig,
			setting.Name("DataDir"), setting.Name("Datastore"))
	case c.Temporary():
		return "", nil
	case c.Datastore == "" || c.Datastore == "sqlite":
		if c.DataDir == "" {
			return "", fmt.Errorf("%w: datastore %q needs a data directory", ErrConfig, c.Datastore)
		}
		return filepath.Join(c.DataDir, "sqlstore.db"), nil
	}
	u, err := url.Parse(c.Datastore)
	if err != nil || u.Scheme == "" {
		// it may hold a password, and so may the parser's message
		return "", fmt.Errorf("%w: datastore is not a URL: %s", ErrConfig, datastoreForm)
	}
	if u.Scheme != "sqlite" {
		return "", fmt.Errorf("%w: datastore has the unknown kind %q: %s", ErrConfig, u.Scheme, datastoreForm)
	}
	switch {
	case u.Host != "" || u.User != nil: // with two slashes, the first part of a path
		return "", fmt.Errorf("%w: datastore %s has the host %q, but SQLite opens a file: %s", ErrConfig, u.Redacted(),
			u.Host, datastoreForm)
	case u.RawQuery != "" || u.ForceQuery:
		return "", fmt.Errorf("%w: datastore %s has the query ?%s, but takes no options; write a ? in a path as %%3F",
			ErrConfig, u.Redacted(), u.RawQuery)
	case u.Fragment != "" || strings.HasSuffix(c.Datastore, "#"):
		return "", fmt.Errorf("%w: datastore %s has the fragment #%s; write a # in a path as %%23", ErrConfig,
			u.Redacted(), u.Fragment)
	case strings.Trim(u.Path, "/") == "": // perhaps of a variable that is missing
		return "", fmt.Errorf("%w: datastore %s names no file: %s, or leave it out for a file in %s", ErrConfig,
			c.Datastore, datastoreForm, setting.Name("DataDir"))
	}
	return u.Path, nil
}

// Database describes the database that Datastore names, without secrets: a path, a URL, or "temporary". Errors:
// [ErrConfig].
func (c *Config) Database() (string, error) {
	if c.OnPostgres() {
		return postgres.Redact(c.dsn()), nil
	}
	path, err := c.file()
	if path == "" {
		path = "temporary"
	}
	return path, err
}

// absoluteDatabase is [Config.Database] with an absolute path, which also shows a wrong working directory.
func (c *Config) absoluteDatabase() (string, error) {
	name, err := c.Database()
	if err != nil || c.OnPostgres() || c.Temporary() {
		return name, err
	}
	return filepath.Abs(name)
}

// dsn returns Datastore with its scheme in lower case, as pgx expects it.
func (c *Config) dsn() string {
	scheme, rest, _ := strings.Cut(c.Datastore, "://")
	return strings.ToLower(scheme) + "://" + rest
}

func (c *Config) postgres() postgres.Config {
	return postgres.Config{
		DSN: c.dsn(), PasswordFile: c.DatastorePasswordFile, MaxConns: c.DatastoreMaxConns,
		UnsafeNoFsync: c.UnsafeNoFsync, TracerProvider: c.TracerProvider, Logger: c.logger(),
	}
}
