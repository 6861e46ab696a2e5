package main

import (
	"cmp"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// fewestConnections are those that --datastore-max-connections allows.
const fewestConnections = 4

// otherDrivers says what to use in place of kine's drivers that have no SQL database which sqlstore supports.
var otherDrivers = map[string]string{
	"mysql": "use postgres://..., and copy the data with 'sqlstore import --from kine+mysql://...'",
	"nats":  "use postgres://... for several servers, or sqlite://... for one",
	"t4":    "use sqlite://... with --backup-to s3://..., or postgres://...",
	"http":  "etcd needs no server before it: give its address to the client",
	"litestream": "use sqlite://... with --no-page-checksums, and run litestream beside it, or --backup-to, which " +
		"needs no other program",
	"memory": "use sqlite://... with --unsafe-no-fsync",
}

// secure reports whether clients are served with TLS. A certificate without its key is an error later.
func (k *kineFlags) secure() bool { return k.serverCertFile+k.serverKeyFile != "" }

// convert sets the flags of serve to what kine's flags mean.
func (k *kineFlags) convert(kine, serve *pflag.FlagSet) error {
	datastore, err := k.datastore(kine)
	if err != nil {
		return err
	}
	values := map[string]string{
		"datastore":          datastore,
		"listen-client-urls": listenURL(cmp.Or(k.listenAddress, "unix://kine.sock"), k.secure()),
		"log-format":         map[string]string{"plain": formatConsole, "json": formatJSON}[k.logFormat],
		"cert-file":          k.serverCertFile, "key-file": k.serverKeyFile,
		"watch-progress-notify-interval": k.progress.String(),
	}
	if values["log-format"] == "" {
		return fmt.Errorf("%w: --log-format is neither plain nor json", errSettings)
	}
	if k.metricsBindAddress != "0" {
		values["listen-metrics-urls"] = listenURL(cmp.Or(k.metricsBindAddress, ":8080"), k.secure() && !k.metricsPlain)
	}
	if k.trustedCAFile != "" && k.secure() {
		values["trusted-ca-file"], values["client-cert-auth"] = k.trustedCAFile, "true"
	}
	if k.debug {
		values["log-level"] = "debug"
	}
	if u, err := url.Parse(datastore); err == nil && u.Scheme == "sqlite" {
		values["data-dir"] = filepath.Dir(u.Path)
	} else if k.maxOpen > 0 {
		values["datastore-max-connections"] = strconv.Itoa(max(k.maxOpen, fewestConnections))
	}
	if k.metricsProfiling {
		values["enable-pprof"] = "true"
	}
	if k.compactEvery > 0 {
		values["auto-compaction-mode"] = "revision"
		values["auto-compaction-retention"] = strconv.FormatInt(max(k.compactMinRetain, 1), 10)
	}
	for name, value := range values {
		if err := serve.Set(name, value); err != nil {
			return fmt.Errorf("%w: %w", errSettings, valueError(err))
		}
	}
	return nil
}

// listenURL returns the URL for an address of kine's: host:port, or unix:// and a path.
func listenURL(address string, secure bool) string {
	scheme, rest, found := strings.Cut(address, "://")
	switch {
	case found && scheme == "unix" && secure:
		return "unixs://" + rest
	case found && scheme == "unix":
		return address
	case found:
		address = rest
	}
	if strings.HasPrefix(address, ":") {
		address = "0.0.0.0" + address
	}
	if secure {
		return "https://" + address
	}
	return "http://" + address
}

// datastore returns the database for kine's endpoint. Its errors do not show it, because it may hold a password.
func (k *kineFlags) datastore(flags *pflag.FlagSet) (string, error) {
	if k.endpoint == "" {
		return sqliteFile("")
	}
	scheme, rest, found := strings.Cut(k.endpoint, "://")
	if !found {
		return "", fmt.Errorf("%w: --endpoint: write sqlite://path or postgres://user@host/database", errSettings)
	}
	scheme = strings.ToLower(scheme)
	switch scheme {
	case "sqlite":
		return sqliteFile(rest)
	case "postgres", "postgresql":
		return k.postgres(flags, scheme, cmp.Or(rest, "postgres:postgres@localhost/"))
	case "jetstream":
		scheme = "nats"
	case "https", "unix", "unixs":
		scheme = "http"
	}
	if instead, ok := otherDrivers[scheme]; ok {
		return "", fmt.Errorf("%w: --endpoint: %s is not available: %s", errSettings, scheme, instead)
	}
	return "", fmt.Errorf("%w: --endpoint has an unknown kind: write sqlite://path or postgres://user@host/database",
		errSettings)
}

// sqliteFile returns the datastore for a file as kine's driver of SQLite names it: a path, or file: and an escaped one.
// Its parameters are that driver's.
func sqliteFile(name string) (string, error) {
	name, _, _ = strings.Cut(name, "?")
	if escaped, isURI := strings.CutPrefix(name, "file:"); isURI {
		var err error
		if name, err = url.PathUnescape(escaped); err != nil {
			return "", fmt.Errorf("%w: --endpoint: %w", errSettings, err)
		}
	}
	if name == ":memory:" {
		return "", fmt.Errorf("%w: --endpoint names no file: write sqlite:///path/to/file", errSettings)
	}
	path, err := filepath.Abs(cmp.Or(name, "./db/state.db"))
	if err != nil {
		return "", fmt.Errorf("%w: --endpoint: %w", errSettings, err)
	}
	return (&url.URL{Scheme: "sqlite", Path: path}).String(), nil
}

// postgres returns the DSN for a Postgres endpoint. As in kine, the database is kubernetes by default, and a
// certificate or an authority asks for verification.
func (k *kineFlags) postgres(flags *pflag.FlagSet, scheme, rest string) (string, error) {
	u, err := url.Parse(scheme + "://" + rest)
	var q url.Values
	if err == nil {
		q, err = url.ParseQuery(u.RawQuery)
	}
	if err != nil || u.Fragment != "" || u.Opaque != "" {
		return "", fmt.Errorf("%w: --endpoint is malformed: write postgres://user:password@host/database, and what is "+
			"special in a part as %%XX", errSettings)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/kubernetes"
	}
	u.Path = strings.ToLower(u.Path)
	add := func(name, value string) {
		if value != "" && !q.Has(name) {
			q.Set(name, value)
		}
	}
	add("sslrootcert", k.caFile)
	add("sslcert", k.certFile)
	add("sslkey", k.keyFile)
	if k.caFile+k.certFile+k.keyFile != "" {
		add("sslmode", "verify-full")
	}
	if k.maxLifetime > 0 {
		add("pool_max_conn_lifetime", k.maxLifetime.String())
	}
	if flags.Changed("datastore-connection-max-idle-time") && k.maxIdleTime > 0 {
		add("pool_max_conn_idle_time", k.maxIdleTime.String())
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}
