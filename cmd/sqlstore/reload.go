package main

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sqlstore/sqlstore"
)

// reloadable lists the settings that SIGHUP may change.
var reloadable = []string{
	"log-level", "quota-backend-bytes", "auto-compaction-mode", "auto-compaction-retention",
	"cert-file", "key-file", "trusted-ca-file", "client-crl-file", "client-cert-allowed-hostname",
	"client-cert-allowed-cn", "acknowledged-conditions",
}

// reloader reads the configuration file again on SIGHUP.
type reloader struct {
	flags  *pflag.FlagSet // in force
	level  *slog.LevelVar
	log    *slog.Logger
	server *sqlstore.Server
	read   func() (*settings, *pflag.FlagSet, error)
}

// readSettings reads the settings of serve from all sources.
func readSettings() (*settings, *pflag.FlagSet, error) {
	s := &settings{}
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	s.register(flags)
	err := flags.Parse(os.Args[1:]) // the command name is an argument like any other
	if err == nil {
		err = applySettings(flags, os.LookupEnv)
	}
	if err == nil {
		err = s.finish()
	}
	return s, flags, err
}

// reload applies the reloadable settings and refuses the rest by name. After any error everything stays unchanged.
func (r *reloader) reload() {
	next, flags, err := r.read()
	if err != nil {
		r.log.Error("settings not reloaded", "error", err)
		r.server.RefuseReload(err)
		return
	}
	changed, refused := r.changes(flags)
	if len(refused) > 0 {
		r.log.Error("settings not reloaded: these cannot change while the server runs; restart it to apply them",
			"settings", refused)
		r.server.RefuseReload(fmt.Errorf("%w: %s", sqlstore.ErrFixed, strings.Join(refused, ", ")))
		return
	}
	c := &next.config
	if err := r.server.Reload(sqlstore.Reload{
		QuotaBytes: c.QuotaBytes, TLS: c.TLS,
		Compaction: c.Compaction, AcknowledgedConditions: c.AcknowledgedConditions,
	}); err != nil {
		r.log.Error("settings not reloaded", "error", err)
		return
	}
	level, _ := parseLevel(next.logLevel) // finish has validated it
	r.flags = flags
	r.level.Set(min(level, r.level.Level())) // so that the next line appears under either level
	r.log.Info("settings reloaded", "changed", changed)
	r.level.Set(level)
}

// changes compares next with the settings in force.
func (r *reloader) changes(next *pflag.FlagSet) (changed, refused []string) {
	next.VisitAll(func(f *pflag.Flag) {
		if r.flags.Lookup(f.Name).Value.String() == f.Value.String() {
			return
		}
		if slices.Contains(reloadable, f.Name) {
			changed = append(changed, f.Name)
		} else {
			refused = append(refused, f.Name)
		}
	})
	return changed, refused
}
