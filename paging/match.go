package paging

import (
	"fmt"
	"strconv"
)

// rule is how a list chooses the revision to read.
type rule int

const (
	invalid      rule = iota // 400
	mostRecent               // everything acknowledged before, by any replica
	anyVersion               // what this replica has in memory; it may lag
	notOlderThan             // any revision from the given one on
	exact                    // the given one
	// the token's: its list's revision, or the most recent for one that restarts an expired list
	continueToken
)

// paged is the combination of limit and continue that is set.
type paged int

const (
	unlimited paged = iota // neither
	limited                // limit alone
	continued              // continue, with or without limit
)

const (
	matchExact        = "Exact"
	matchNotOlderThan = "NotOlderThan"
)

// matchTable is the table of KEP-2523, "Consistent Reads and resourceVersionMatch": resourceVersionMatch and paging
// against resourceVersion. A continue token with resourceVersion "0" is not in the KEP; Kubernetes accepts it, for old
// clients.
//
// In kubernetes/enhancements it is keps/sig-api-machinery/2523-consistent-resource-versions-semantics/README.md.
var matchTable = []struct {
	match  string
	paging paged

	unset, zero, n rule
}{
	{"", unlimited, mostRecent, anyVersion, notOlderThan},
	{"", limited, mostRecent, anyVersion, exact},
	{"", continued, continueToken, continueToken, invalid},
	{matchExact, unlimited, invalid, invalid, exact},
	{matchExact, limited, invalid, invalid, exact},
	{matchExact, continued, invalid, invalid, invalid},
	{matchNotOlderThan, unlimited, invalid, anyVersion, notOlderThan},
	{matchNotOlderThan, limited, invalid, anyVersion, notOlderThan},
	{matchNotOlderThan, continued, invalid, invalid, invalid},
}

// decide looks up a list in the table. It returns the requested revision, or 0. Errors: [ErrInvalid].
func decide(o ListOptions) (rule, int64, error) {
	version, err := ParseVersion(o.ResourceVersion)
	if err != nil {
		return invalid, 0, err
	}
	if o.Limit < 0 {
		return invalid, 0, fmt.Errorf("%w: limit must not be negative", ErrInvalid)
	}
	p := unlimited
	switch {
	case o.Continue != "":
		p = continued
	case o.Limit > 0:
		p = limited
	}
	r := invalid
	for _, row := range matchTable {
		if row.match != o.ResourceVersionMatch || row.paging != p {
			continue
		}
		switch {
		case o.ResourceVersion == "":
			r = row.unset
		case version == 0:
			r = row.zero
		default:
			r = row.n
		}
	}
	if r == invalid {
		return invalid, 0, fmt.Errorf("%w: %s", ErrInvalid, whyNot(o))
	}
	return r, version, nil
}

// whyNot explains a refusal in Kubernetes' words.
func whyNot(o ListOptions) string {
	switch {
	case o.ResourceVersionMatch == "":
		return "specifying resource version is not allowed when using continue"
	case o.ResourceVersionMatch != matchExact && o.ResourceVersionMatch != matchNotOlderThan:
		return fmt.Sprintf("resourceVersionMatch: Unsupported value: %.40q: supported values: %q, %q",
			o.ResourceVersionMatch, matchExact, matchNotOlderThan)
	case o.ResourceVersion == "":
		return "resourceVersionMatch is forbidden unless resourceVersion is provided"
	case o.Continue != "":
		return "resourceVersionMatch is forbidden when continue is provided"
	}
	return `resourceVersionMatch "Exact" is forbidden for resourceVersion "0"`
}

// ParseVersion parses a resourceVersion; "" is 0. Errors: [ErrInvalid].
func ParseVersion(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%w: resourceVersion %.40q is not a revision number", ErrInvalid, s)
	}
	return int64(n), nil
}
