package etcdflags

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// knownGates are etcd 3.7's feature gates, and whether each is on by default.
var knownGates = map[string]bool{
	"StopGRPCServiceOnDefrag": false, "InitialCorruptCheck": false, "CompactHashCheck": false,
	"TxnModeWriteWithSharedBuffer": true, "LeaseCheckpoint": false, "LeaseCheckpointPersist": false,
	"SetMemberLocalAddr": false, "FastLeaseKeepAlive": true, "PriorityRequest": false,
}

// allAlpha and allBeta set the gates that are off, or on, by default.
const (
	allAlpha = "AllAlpha"
	allBeta  = "AllBeta"
)

// gates are the feature gates that are set.
type gates map[string]bool

// Set implements [flag.Value].
func (g gates) Set(s string) error {
	for pair := range strings.SplitSeq(s, ",") {
		if pair == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		if name = strings.TrimSpace(name); !ok {
			return fmt.Errorf("missing bool value for %s", name)
		}
		on, err := strconv.ParseBool(strings.TrimSpace(value))
		if err != nil {
			return fmt.Errorf("invalid value of %s=%s: write true or false", name, value)
		}
		if _, known := knownGates[name]; !known && name != allAlpha && name != allBeta {
			return fmt.Errorf("unrecognized feature gate: %s", name)
		}
		g[name] = on
	}
	return nil
}

// String implements [flag.Value].
func (g gates) String() string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(g)) {
		pairs = append(pairs, fmt.Sprintf("%s=%t", name, g[name]))
	}
	return strings.Join(pairs, ",")
}

// Enabled reports whether a feature gate is on.
func (o *Options) Enabled(gate string) bool { return o.gates().enabled(gate) }

func (o *Options) gates() gates {
	return o.flags.Lookup("feature-gates").Value.(gates) //nolint:forcetypeassert // the table has the type
}

// enabled reports whether a gate is on.
func (g gates) enabled(name string) bool {
	if on, ok := g[name]; ok {
		return on
	}
	all := allAlpha
	if knownGates[name] {
		all = allBeta
	}
	if on, ok := g[all]; ok {
		return on
	}
	return knownGates[name]
}
