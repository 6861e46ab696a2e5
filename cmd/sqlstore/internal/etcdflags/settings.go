package etcdflags

import (
	"flag"
	"log/slog"
	"maps"
	"slices"
)

// deprecated has etcd's words about flags that its next versions drop.
var deprecated = map[string]string{
	"max-snapshots": "--max-snapshots is deprecated in 3.6 and will be decommissioned in 3.8.",
	stageFlag: "--v2-deprecation is deprecated and scheduled for removal in v3.8. The default value is enforced, " +
		"ignoring user input.",
}

// secret are the flags whose values the log must not have. A user for discovery may have the form user:password.
var secret = []string{"discovery-user", "discovery-password"}

// Settings returns the values of etcd's flags as attributes for the log: all but secrets and the flags that etcd
// ignores.
func (o *Options) Settings() (attrs []any) {
	for _, name := range slices.Sorted(maps.Keys(o.uses)) {
		value := o.flags.Lookup(name).Value
		getter, typed := value.(flag.Getter)
		switch {
		case name == stageFlag:
			attrs = append(attrs, name, stages[0]) // whatever was given
		case slices.Contains(secret, name) || o.uses[name] == Old:
		case typed:
			attrs = append(attrs, name, getter.Get())
		default:
			attrs = append(attrs, name, value.String())
		}
	}
	return attrs
}

func (o *Options) noteDeprecated() {
	for _, name := range slices.Sorted(maps.Keys(deprecated)) {
		if o.given[name] {
			o.note(slog.LevelWarn, deprecated[name])
		}
	}
}
