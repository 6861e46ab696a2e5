package sqlstore

import (
	"errors"
	"log/slog"
	"time"

	"github.com/sqlstore/sqlstore/compactor"
	"github.com/sqlstore/sqlstore/internal/listen"
)

// ErrConfig is returned for settings that cannot be used.
var ErrConfig = errors.New("bad configuration")

// ErrPlaintext is returned for a listener without TLS that other machines can reach; see [Config].InsecurePlaintext.
var ErrPlaintext = listen.ErrPlaintext

// Config says what to serve and where. The zero Config serves a temporary store on a free port of the loopback
// interface.
type Config struct {
	// Name is the member's name; default "default".
	Name string
	// DataDir holds the database when Datastore does not name one. When both are empty the store is temporary: nothing
	// is synced, and Close removes it.
	DataDir string
	// Datastore is sqlite:///path/to/file, or "sqlite" or "" for sqlstore.db in DataDir; or
	// postgres://user@host:5432/database with pgx's parameters, a database that any number of servers may share.
	Datastore string
	// DatastorePasswordFile holds the password for Postgres and nothing else. It is read anew for each connection, and
	// wins over a password in Datastore.
	DatastorePasswordFile string
	// DatastoreMaxConns bounds the connections to Postgres; default: pool_max_conns of Datastore, else 16.
	DatastoreMaxConns int
	// DatastoreWait is how long Start waits for a Postgres that cannot be reached; default 1 min, negative: not at all.
	DatastoreWait time.Duration
	// DatastoreMaxStaleness bounds what a linearizable read may miss after a failover of Postgres that this server did
	// not notice: only what was acknowledged in the last moments before the read. Default 2 s, which is less than a
	// failover takes; negative: nothing is missed, and each read waits for a commit of its own.
	DatastoreMaxStaleness time.Duration

	// ListenClientURLs are http, https, unix or unixs URLs; default http://127.0.0.1:0.
	ListenClientURLs []string
	// AdvertiseClientURLs are those in the member list; default: what is listened on.
	AdvertiseClientURLs []string
	// ListenMetricsURLs are served health and metrics only, besides the client URLs.
	ListenMetricsURLs []string
	// ListenObjectsURLs are URLs to serve the list/watch API over HTTP/JSON on; none means that it is off.
	ListenObjectsURLs []string
	// InsecurePlaintext allows to listen without TLS where other machines can connect.
	InsecurePlaintext bool
	// CORS are the origins whose web pages may use the JSON API and the other HTTP paths of the client URLs; empty or
	// "*" means all. Of ListenObjectsURLs only those may that are named. Pages of others can neither write nor open a
	// websocket.
	CORS []string
	// HostWhitelist are the hosts that HTTP is served as without TLS; "*" means all. When it is empty, listeners on the
	// loopback interface serve IP addresses, localhost and the names in AdvertiseClientURLs, and others serve all: a
	// web page whose name an attacker lets resolve to 127.0.0.1 is refused (DNS rebinding).
	HostWhitelist []string
	// TLS names the files for https and unixs URLs.
	TLS TLSFiles

	// QuotaBytes is the size of the database that raises the NOSPACE alarm; 0 means 2 GiB on SQLite and none on
	// Postgres, negative none.
	QuotaBytes int64
	// MaxRequestBytes (default 1.5 MiB), MaxTxnOps (default 128) and MaxConcurrentStreams (default: no bound) bound
	// requests.
	MaxRequestBytes      int
	MaxTxnOps            int
	MaxConcurrentStreams uint32
	// KeepaliveMinTime (default 5 s), KeepaliveInterval (default 2 h) and KeepaliveTimeout (default 20 s) are gRPC's.
	KeepaliveMinTime, KeepaliveInterval, KeepaliveTimeout time.Duration
	// WatchProgressInterval is how often idle watches hear of progress; default 5 s.
	WatchProgressInterval time.Duration
	// CacheBytes bounds the values kept in memory; default: a sixteenth of the memory that the process may use, at
	// least 32 MiB and at most 4 GiB.
	CacheBytes int64

	// Compaction steers automatic compaction; its Logger is not used.
	Compaction compactor.Config

	// UnsafeNoFsync acknowledges writes before they are on disk. A crash of the machine may lose or damage data.
	UnsafeNoFsync bool
	// ExtensiveMetrics adds histograms of the calls' durations.
	ExtensiveMetrics bool
	// WarningUnaryRequestDuration is how long a unary gRPC call takes that is logged as slow; default 300 ms, negative:
	// none is logged.
	WarningUnaryRequestDuration time.Duration
	// Profiling serves /debug/pprof beside the metrics.
	Profiling bool
	// Logger is where to log; default: nowhere.
	Logger *slog.Logger
}

// TLSFiles names the files that TLS takes its certificates from. They are read again when they change. The zero TLSFiles
// means no TLS.
type TLSFiles struct {
	// Cert and Key are the server's certificate chain and private key, PEM.
	Cert, Key string
	// TrustedCA holds the authorities that sign client certificates, PEM. As in etcd, naming them is enough to refuse
	// clients without such a certificate.
	TrustedCA string
	// RequireClientCert makes it an error to leave TrustedCA empty.
	RequireClientCert bool
	// MinVersion is the oldest TLS version accepted, 0 for TLS 1.2.
	MinVersion uint16
	// CipherSuites are those of TLS 1.2 that are accepted, nil for Go's choice.
	CipherSuites []uint16
}

// wanted says whether any of TLS is asked for, be it only half of what it needs.
func (f TLSFiles) wanted() bool {
	return f.Cert != "" || f.Key != "" || f.TrustedCA != "" || f.RequireClientCert
}

// quota is QuotaBytes as the store takes it. A server's database has its own operators and limits.
func (c *Config) quota(bytes int64) int64 {
	if bytes == 0 && c.OnPostgres() {
		return -1
	}
	return bytes
}
