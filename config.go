package sqlstore

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/sqlstore/sqlstore/compactor"
	"github.com/sqlstore/sqlstore/listen"
)

// ErrConfig is returned for settings that cannot be used.
var ErrConfig = errors.New("bad configuration")

// Config says what to serve and where. The zero Config serves a temporary store on a free port of the loopback interface.
type Config struct {
	// Name is the member's name; default "default".
	Name string
	// DataDir holds the database when Datastore does not name one. When both are empty the store is temporary: nothing is
	// synced, and Close removes it.
	DataDir string
	// Datastore is sqlite:///path/to/file, or "sqlite" or "" for sqlstore.db in DataDir.
	Datastore string

	// ListenClientURLs are http, https, unix or unixs URLs; default http://127.0.0.1:0.
	ListenClientURLs []string
	// AdvertiseClientURLs are what clients are told; default: what is listened on.
	AdvertiseClientURLs []string
	// ListenMetricsURLs are served health and metrics only, besides the client URLs.
	ListenMetricsURLs []string
	// InsecurePlaintext allows to listen without TLS where other machines can connect.
	InsecurePlaintext bool
	// CORS are the origins whose web pages may use the JSON API and the other HTTP paths of the client URLs, HostWhitelist the
	// hosts that they are served as without TLS; for both, empty or "*" means all.
	CORS, HostWhitelist []string
	// TLS names the files for https and unixs URLs.
	TLS listen.Files

	// QuotaBytes is the size of the database that raises the NOSPACE alarm; 0 means 2 GiB, negative none.
	QuotaBytes int64
	// MaxRequestBytes (default 1.5 MiB), MaxTxnOps (default 128) and MaxConcurrentStreams (default: no bound) bound requests.
	MaxRequestBytes      int
	MaxTxnOps            int
	MaxConcurrentStreams uint32
	// KeepaliveMinTime (default 5 s), KeepaliveInterval (default 2 h) and KeepaliveTimeout (default 20 s) are gRPC's.
	KeepaliveMinTime, KeepaliveInterval, KeepaliveTimeout time.Duration
	// WatchProgressInterval is how often idle watches hear of progress; default 5 s.
	WatchProgressInterval time.Duration
	// CacheBytes bounds the values kept in memory; default: a sixteenth of the memory that the process may use, at least 32 MiB
	// and at most 4 GiB.
	CacheBytes int64

	// Compaction steers automatic compaction; its Logger is not used.
	Compaction compactor.Config

	// UnsafeNoFsync acknowledges writes before they are on disk. A crash of the machine may lose or damage data.
	UnsafeNoFsync bool
	// ExtensiveMetrics adds histograms of the calls' durations.
	ExtensiveMetrics bool
	// Profiling serves /debug/pprof beside the metrics.
	Profiling bool
	// Logger is where to log; default: nowhere.
	Logger *slog.Logger
}

// datastoreForm is how to name a file, for those who wrote something else.
const datastoreForm = "write sqlite:///path/to/file, with three slashes before an absolute path"

// Database resolves Datastore: the path of the SQLite file, "" for a temporary one. Errors: [ErrConfig].
func (c *Config) Database() (string, error) {
	switch {
	case c.Datastore == "" && c.DataDir == "":
		return "", nil
	case c.Datastore == "" || c.Datastore == "sqlite" || c.Datastore == "sqlite://":
		if c.DataDir == "" {
			return "", fmt.Errorf("%w: datastore %q needs a data directory", ErrConfig, c.Datastore)
		}
		return filepath.Join(c.DataDir, "sqlstore.db"), nil
	}
	u, err := url.Parse(c.Datastore)
	if err != nil {
		return "", fmt.Errorf("%w: datastore is not a URL", ErrConfig) // the URL may hold a password
	}
	if u.Scheme != "sqlite" {
		return "", fmt.Errorf("%w: datastore %s: only sqlite:///path is there", ErrConfig, u.Redacted())
	}
	switch {
	case u.Host != "" || u.User != nil: // with two slashes, a path's first part
		return "", fmt.Errorf("%w: datastore %s has the host %q, but SQLite has files: %s", ErrConfig, u.Redacted(), u.Host, datastoreForm)
	case u.RawQuery != "" || u.ForceQuery:
		return "", fmt.Errorf("%w: datastore %s has the query ?%s, but takes no options; a ? in a path is written %%3F", ErrConfig, u.Redacted(), u.RawQuery)
	case u.Fragment != "" || strings.HasSuffix(c.Datastore, "#"):
		return "", fmt.Errorf("%w: datastore %s has the fragment #%s; a # in a path is written %%23", ErrConfig, u.Redacted(), u.Fragment)
	case strings.Trim(u.Path, "/") == "":
		return "", fmt.Errorf("%w: datastore %s names no file: %s", ErrConfig, u.Redacted(), datastoreForm)
	}
	return u.Path, nil
}
