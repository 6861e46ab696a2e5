package sqlstore

import (
	"errors"
	"log/slog"
	"time"

	"github.com/sqlstore/sqlstore/compactor"
	"github.com/sqlstore/sqlstore/internal/listen"
)

// ErrConfig is returned for unusable settings.
var ErrConfig = errors.New("bad configuration")

// ErrPlaintext is returned for a listener without TLS that other machines can reach. See [Config].InsecurePlaintext.
var ErrPlaintext = listen.ErrPlaintext

// Config describes what to serve and where. The zero Config serves a temporary store on a free port of the loopback
// interface.
type Config struct {
	// Name is the name of the member. Default "default".
	Name string
	// DataDir holds the database if Datastore does not name one. If both are empty, the store is temporary: nothing is
	// synced, and Close removes it.
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
	// takes. If negative, reads miss nothing, and each one waits for a commit of its own.
	DatastoreMaxStaleness time.Duration

	// ListenClientURLs are http, https, unix or unixs URLs. Default http://127.0.0.1:0.
	ListenClientURLs []string
	// AdvertiseClientURLs appear in the member list. Default: the listen URLs.
	AdvertiseClientURLs []string
	// ListenMetricsURLs serve only health and metrics, in addition to the client URLs.
	ListenMetricsURLs []string
	// ListenObjectsURLs serve the list/watch API over HTTP/JSON. The API is off if there are none.
	ListenObjectsURLs []string
	// InsecurePlaintext allows listening without TLS where other machines can connect.
	InsecurePlaintext bool
	// CORS lists the origins whose web pages may use the JSON API and the other HTTP paths of the client URLs. Empty or
	// "*" allows all. ListenObjectsURLs accept only origins listed here. Pages of other origins can neither write nor
	// open a websocket.
	CORS []string
	// HostWhitelist lists the host names to serve over HTTP without TLS; "*" allows all. If it is empty, listeners on
	// the loopback interface serve IP addresses, localhost and the names in AdvertiseClientURLs, and other listeners
	// serve all names. This stops DNS rebinding, where an attacker's name resolves to 127.0.0.1.
	HostWhitelist []string
	// TLS names the files for https and unixs URLs.
	TLS TLSFiles

	// QuotaBytes is the database size that raises the NOSPACE alarm. 0 means 2 GiB on SQLite and no quota on Postgres;
	// negative means no quota.
	QuotaBytes int64
	// DiskReserveBytes is the disk space that is held in reserve beside a SQLite database and released when the disk is
	// full, so that deletes and compaction still work. Default 64 MiB, where the file system has ten times as much
	// free; negative means none.
	DiskReserveBytes int64
	// MaxRequestBytes (default 1.5 MiB), MaxTxnOps (default 128) and MaxConcurrentStreams (default unlimited) limit
	// requests.
	MaxRequestBytes      int
	MaxTxnOps            int
	MaxConcurrentStreams uint32
	// KeepaliveMinTime (default 5 s), KeepaliveInterval (default 2 h) and KeepaliveTimeout (default 20 s) are those of
	// gRPC.
	KeepaliveMinTime, KeepaliveInterval, KeepaliveTimeout time.Duration
	// WatchProgressInterval is how often idle watches get a progress notification. Default 5 s.
	WatchProgressInterval time.Duration
	// CacheBytes limits the values kept in memory. Default: a sixteenth of the memory available to the process, from 32
	// MiB to 4 GiB.
	CacheBytes int64

	// Compaction configures automatic compaction. Its Logger is ignored.
	Compaction compactor.Config

	// UnsafeNoFsync acknowledges writes before they are on disk. A machine crash may lose or damage data.
	UnsafeNoFsync bool
	// ExtensiveMetrics adds histograms of call durations.
	ExtensiveMetrics bool
	// WarningUnaryRequestDuration is the duration above which a unary gRPC call, or a request of the list/watch
	// API, is logged as slow. Default 300 ms; negative logs none.
	WarningUnaryRequestDuration time.Duration
	// Profiling serves /debug/pprof next to the metrics.
	Profiling bool
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
	// MinVersion is the oldest TLS version to accept. 0 means TLS 1.2.
	MinVersion uint16
	// CipherSuites are the TLS 1.2 cipher suites to accept. nil means Go's choice.
	CipherSuites []uint16
}

// wanted reports whether any TLS file is set, even if others are missing.
func (f TLSFiles) wanted() bool {
	return f.Cert != "" || f.Key != "" || f.TrustedCA != "" || f.RequireClientCert
}

// quota converts QuotaBytes to the store's form. A Postgres database has its own operators and limits.
func (c *Config) quota(bytes int64) int64 {
	if bytes == 0 && c.OnPostgres() {
		return -1
	}
	return bytes
}
