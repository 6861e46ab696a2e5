package etcdflags

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
)

// longestElection is etcd's limit of --election-timeout.
const longestElection = 50000

// Check validates the settings as etcd does before it starts, and refuses what cannot be done. Errors: [ErrSettings],
// [ErrRefused].
func (o *Options) Check() error {
	for _, check := range []func() error{
		o.refuse, o.checkLogging, o.checkURLs, o.checkCluster, o.checkElection, o.checkAdvertised, o.checkRest,
		o.checkTLS,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	o.noteDeprecated()
	o.noteWithoutEffect()
	return nil
}

// refuse returns an error for a flag that asks for what cannot be done.
func (o *Options) refuse() error {
	for _, name := range slices.Sorted(maps.Keys(o.given)) {
		switch {
		case o.uses[name] != Refused || o.Text(name) == "" || o.Text(name) == "false":
		case name == "force-new-cluster":
			return fmt.Errorf("%w: --%s: a store keeps all data in its database, and has no other members to leave: "+
				"start without it; to begin anew, use another --data-dir or --datastore", ErrRefused, name)
		default:
			return fmt.Errorf("%w: --%s: servers do not find each other through discovery: give --datastore "+
				"postgres://... to all of them, with the same database", ErrRefused, name)
		}
	}
	return nil
}

func (o *Options) checkLogging() error {
	if logger := o.Text("logger"); logger != "zap" {
		return fmt.Errorf("%w: unknown logger option %q", ErrSettings, logger)
	}
	switch level := o.Text("log-level"); level {
	case "debug", "info", "warn", "error", "panic", "fatal":
	default:
		return fmt.Errorf("%w: --log-level %q is none of debug, info, warn, error, panic and fatal", ErrSettings, level)
	}
	switch format := o.Text("log-format"); format {
	case "", "json", "console":
	default:
		return fmt.Errorf("%w: unknown log format: %s, supported values json, console", ErrSettings, format)
	}
	return nil
}

// checkURLs refuses to listen on host names and to advertise nothing.
func (o *Options) checkURLs() error {
	for _, name := range []string{
		"listen-peer-urls", "listen-client-urls", "listen-client-http-urls", "listen-metrics-urls",
	} {
		for _, raw := range o.List(name) {
			host, unix, err := hostOf(raw)
			switch {
			case err != nil:
				return fmt.Errorf("%w: --%s: %w", ErrSettings, name, err)
			case !unix && host != "localhost" && net.ParseIP(host) == nil:
				return fmt.Errorf("%w: --%s: expected IP in URL for binding (%s)", ErrSettings, name, raw)
			}
		}
	}
	for _, name := range []string{"initial-advertise-peer-urls", "advertise-client-urls"} {
		for _, raw := range o.List(name) {
			if host, unix, err := hostOf(raw); err != nil || !unix && host == "" {
				return fmt.Errorf(`%w: --%s %q must be "host:port", "unix:/path/to/socket" or `+
					`"unixs:/path/to/socket"`, ErrSettings, name, raw)
			}
		}
	}
	return nil
}

func hostOf(raw string) (host string, unix bool, err error) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", false, err
	}
	if u.Scheme == "unix" || u.Scheme == "unixs" {
		return "", true, nil
	}
	host, _, err = net.SplitHostPort(u.Host)
	return host, false, err
}

func (o *Options) checkElection() error {
	heartbeat, election := get[uint](o, "heartbeat-interval"), get[uint](o, "election-timeout")
	switch {
	case heartbeat == 0:
		return fmt.Errorf("%w: --heartbeat-interval must be >0 (set to %dms)", ErrSettings, heartbeat)
	case election == 0:
		return fmt.Errorf("%w: --election-timeout must be >0 (set to %dms)", ErrSettings, election)
	case 5*heartbeat > election:
		return fmt.Errorf("%w: --election-timeout[%dms] should be at least as 5 times as --heartbeat-interval[%dms]",
			ErrSettings, election, heartbeat)
	case election > longestElection:
		return fmt.Errorf("%w: --election-timeout[%dms] is too long, and should be set less than %dms", ErrSettings,
			election, longestElection)
	}
	return nil
}

// checkAdvertised wants the URLs for clients if the server listens elsewhere than by default.
func (o *Options) checkAdvertised() error {
	if o.file == "" && o.given["listen-client-urls"] && !o.given["advertise-client-urls"] ||
		o.Text("advertise-client-urls") == "" && o.Text("listen-client-urls") != "" {
		return fmt.Errorf("%w: --advertise-client-urls is required when --listen-client-urls is set explicitly",
			ErrSettings)
	}
	return nil
}

func (o *Options) checkRest() error {
	switch mode := o.Text("auto-compaction-mode"); mode {
	case "periodic", "revision":
	case "":
		return fmt.Errorf("%w: undefined auto-compaction-mode", ErrSettings)
	default:
		return fmt.Errorf("%w: unknown auto-compaction-mode %q", ErrSettings, mode)
	}
	if o.Text("discovery-fallback") == "proxy" {
		return fmt.Errorf("%w: v2 proxy is deprecated, and --discovery-fallback can't be configured as %q", ErrSettings,
			"proxy")
	}
	rate := get[int](o, "distributed-tracing-sampling-rate")
	if o.Text("enable-distributed-tracing") == "true" && (rate < 0 || rate > 1_000_000) {
		return fmt.Errorf("%w: --distributed-tracing-sampling-rate must be from 0 to 1000000", ErrSettings)
	}
	if o.Enabled("LeaseCheckpointPersist") && !o.Enabled("LeaseCheckpoint") {
		return fmt.Errorf("%w: enabling feature gate LeaseCheckpointPersist requires enabling feature gate "+
			"LeaseCheckpoint", ErrSettings)
	}
	if d := get[time.Duration](o, "compact-hash-check-time"); d <= 0 {
		return fmt.Errorf("%w: --compact-hash-check-time must be >0 (set to %v)", ErrSettings, d)
	}
	return nil
}

func (o *Options) checkTLS() error {
	oldest, newest := o.Text("tls-min-version"), o.Text("tls-max-version")
	for _, version := range []string{oldest, newest} {
		if version != "" && version != "TLS1.2" && version != "TLS1.3" {
			return fmt.Errorf("%w: unexpected TLS version %q (must be one of: TLS1.2, TLS1.3)", ErrSettings, version)
		}
	}
	secure := slices.ContainsFunc(o.List("listen-metrics-urls"), func(u string) bool {
		return strings.HasPrefix(u, "https:") || strings.HasPrefix(u, "unixs:")
	})
	switch {
	case secure && o.Text("cert-file") == "" && o.Text("auto-tls") != "true":
		return fmt.Errorf("%w: client TLS key/cert (--cert-file, --key-file) must be provided for metrics secure url",
			ErrSettings)
	case newest != "" && oldest > newest:
		return fmt.Errorf("%w: min version (%s) is greater than max version (%s)", ErrSettings, oldest, newest)
	case oldest == "TLS1.3" && len(o.List("cipher-suites")) > 0:
		return errors.Join(ErrSettings, errors.New("cipher suites cannot be configured when only TLS1.3 is enabled"))
	}
	return nil
}

// noteWithoutEffect names, once for each reason, the flags that change nothing.
func (o *Options) noteWithoutEffect() {
	byUse := map[Use][]string{}
	for _, name := range slices.Sorted(maps.Keys(o.given)) {
		if use, ok := o.uses[name]; ok {
			byUse[use] = append(byUse[use], "--"+name)
		}
	}
	for _, gate := range slices.Sorted(maps.Keys(o.gates())) {
		if gate != allAlpha && gate != "InitialCorruptCheck" && gate != "CompactHashCheck" {
			byUse[Raft] = append(byUse[Raft], "--feature-gates "+gate)
		}
	}
	for _, use := range []Use{Raft, Storage, Old} {
		if names := byUse[use]; len(names) > 0 {
			o.note(slog.LevelInfo, "flags without effect", "flags", strings.Join(names, " "), "reason", reasons[use])
		}
	}
}
