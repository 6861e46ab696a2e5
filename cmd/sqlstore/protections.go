package main

import (
	"github.com/spf13/pflag"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/etcdflags"
)

// protections are the flags that protect a server, its clients or its backups, and those without which they mean
// nothing. An https URL demands a certificate; only under kine's command line, one that is empty turns TLS off.
var protections = []struct{ flag, needs string }{
	{"trusted-ca-file", ""},
	{"client-cert-auth", "trusted-ca-file"},
	{"client-crl-file", "trusted-ca-file"},
	{"client-cert-allowed-hostname", "trusted-ca-file"},
	{allowedNames, "trusted-ca-file"},
	{"audit-log", ""},
	{"backup-to", ""},
	{"backup-recipient", "backup-to"},
	{"recipient", "to"},
}

const emptyProtectionsMessage = "empty values count as not set, so these protections are off: give each a value, or " +
	"leave it out"

// emptyProtections returns the variables, flags of the command line and keys of the configuration file that are empty
// and leave a protection off, although somebody meant to turn it on. Files for etcd list what is off with empty values,
// as its own example does.
func emptyProtections(flags *pflag.FlagSet, command string, getenv func(string) (string, bool)) (empty []string) {
	add := func(name string) {
		if value, set := getenv(name); set && value == "" {
			empty = append(empty, name)
		}
	}
	for _, p := range protections {
		f := flags.Lookup(p.flag)
		if f == nil || !isOff(f) || p.needs != "" && isEmpty(flags.Lookup(p.needs)) {
			continue
		}
		switch {
		case command == etcdName && etcdflags.Has(p.flag):
			add(etcdflags.Variable(p.flag))
		case command == kineName && isKineFlag(p.flag):
			add(kineVariable(p.flag))
		default:
			add(variable(p.flag))
		}
		if f.Changed && command != etcdName && command != kineName { // these set flags of serve by themselves
			empty = append(empty, "--"+p.flag)
		}
		if _, listed := f.Annotations[emptyInFile]; listed {
			empty = append(empty, "--config-file: "+p.flag)
		}
	}
	if command == kineName && isEmpty(flags.Lookup("cert-file")) {
		add(kineVariable("server-cert-file"))
	}
	return empty
}

// isOff reports whether a flag has no value, or is a switch that nothing has set.
func isOff(f *pflag.Flag) bool { return isEmpty(f) || f.Value.Type() == "bool" && !f.Changed }
