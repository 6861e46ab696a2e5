package main

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/etcdflags"
	"github.com/sqlstore/sqlstore/internal/listen"
)

// allowedNames is the flag of serve for which etcd has only a key of its file.
const allowedNames = "client-cert-allowed-cn"

// convert checks etcd's settings and sets the flags of serve to them.
func (e *etcdMode) convert(s *settings, flags *pflag.FlagSet) error {
	o := e.options
	if err := o.Check(); err != nil {
		return err
	}
	values := o.Passed()
	for name, value := range meanings(o) {
		values[name] = value
	}
	if !o.Given("name") && s.config.OnPostgres() {
		values["name"] = "" // the host's: etcd's default would be the same for all replicas
	}
	e.withoutTLS(values, flags)
	if o.Text("enable-distributed-tracing") != "true" { // as in etcd, they are not checked then
		e.drop(values, "--enable-distributed-tracing is not set", "distributed-tracing-address",
			"distributed-tracing-sampling-rate")
	}
	for name, value := range values {
		if flags.Lookup(name) == nil {
			if o.Given(name) && !o.Default(name) {
				return fmt.Errorf("%w: --%s is not available", errSettings, name)
			}
			continue
		}
		if err := flags.Set(name, value); err != nil {
			return fmt.Errorf("%w: --%s %q: %w", errSettings, name, value, err)
		}
		flags.Lookup(name).Changed = o.Given(name)
	}
	s.config.InsecurePlaintext, s.config.EtcdReady = true, true
	if err := s.finish(); err != nil {
		return err
	}
	if s.config.OnPostgres() {
		return nil
	}
	if members := o.Members(); len(members) > 1 {
		return fmt.Errorf("%w: --initial-cluster has the members %s, but a SQLite database has only one: use "+
			"--datastore postgres://..., the same for all of them", etcdflags.ErrRefused, strings.Join(members, ", "))
	}
	return firstStart(s, o)
}

// meanings returns the values that serve writes differently than etcd.
func meanings(o *etcdflags.Options) map[string]string {
	values := map[string]string{"log-level": o.Text("log-level"), "advertise-client-urls": advertised(o)}
	replace := func(name, from, to string) {
		if o.Text(name) == from {
			values[name] = to
		}
	}
	replace("data-dir", "", o.Text("name")+".etcd")
	replace("watch-progress-notify-interval", "0s", "10m")
	replace("grpc-keepalive-min-time", "0s", "5m") // gRPC's own default
	replace("max-concurrent-streams", "0", strconv.FormatUint(math.MaxUint32, 10))
	replace("warning-unary-request-duration", "0s", "300ms")
	replace("auto-compaction-retention", "", "0")
	if !o.Given("cors") {
		values["cors"] = "" // etcd's * lets any web page in
	}
	if o.Enabled("InitialCorruptCheck") {
		values["initial-corrupt-check"] = "true"
	}
	if !o.Enabled("CompactHashCheck") {
		values["compact-hash-check-time"] = "0"
	}
	if o.Text("metrics") != "extensive" {
		values["metrics"] = "basic"
	}
	return values
}

// withoutTLS removes settings of TLS that, as in etcd, apply to nothing.
func (e *etcdMode) withoutTLS(values map[string]string, flags *pflag.FlagSet) {
	o := e.options
	names, _ := flags.Lookup(allowedNames).Value.(pflag.SliceValue) // serve's own flag, which is already set
	drop := func(why string, flags ...string) {
		values[allowedNames] = strings.Join(names.GetSlice(), ",")
		_ = names.Replace(nil) // no list is always valid
		e.drop(values, why, append(flags, allowedNames)...)
	}
	urls := slices.Concat(o.List("listen-client-urls"), o.List("listen-client-http-urls"),
		o.List("listen-metrics-urls"), strings.Split(o.Text("listen-objects-urls"), ","),
		strings.Split(o.Text("listen-console-urls"), ","))
	if !slices.ContainsFunc(urls, func(u string) bool {
		return strings.HasPrefix(strings.Trim(u, "[]"), "https:") || strings.HasPrefix(strings.Trim(u, "[]"), "unixs:")
	}) {
		drop(noTLS, "cert-file", "key-file", "trusted-ca-file", "client-cert-auth", "auto-tls", "client-crl-file",
			"client-cert-allowed-hostname")
	} else if o.Text("trusted-ca-file") == "" {
		drop("it needs --trusted-ca-file", "client-crl-file", "client-cert-allowed-hostname")
	}
}

// drop removes values that have no effect, and notes those that somebody gave.
func (e *etcdMode) drop(values map[string]string, why string, names ...string) {
	for _, name := range names {
		if value := values[name]; e.options.Given(name) && value != "" && value != "false" {
			e.unused = append(e.unused, unusedSetting{name, why})
		}
		delete(values, name)
	}
}

// advertised returns the URLs for clients. Like etcd's, the default has this machine's address if the server listens on
// all of them.
func advertised(o *etcdflags.Options) string {
	const byDefault = "http://localhost:2379"
	text, listening := o.Text("advertise-client-urls"), o.List("listen-client-urls")
	if text != byDefault || len(listening) == 0 {
		return text
	}
	u, err := url.Parse(listening[0])
	if err != nil || u.Hostname() != "0.0.0.0" {
		return text
	}
	address := listen.OutgoingAddress(u.Hostname())
	if address == "" {
		return text
	}
	return "http://" + net.JoinHostPort(address, u.Port())
}

// firstStart checks what etcd checks only before a store exists.
func firstStart(s *settings, o *etcdflags.Options) error {
	database, err := s.config.Database()
	if err != nil {
		return err
	}
	if _, err := os.Stat(database); !errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return o.CheckBootstrap()
}
