package hostile

import (
	"context"
	"slices"
)

// abuse is one way in which a hostile client treats a server. Every abuse is bounded in count and in time.
type abuse struct {
	// name is the subtest's name and the row of the table.
	name string
	// short and full are the amount in a short and in a full round, in the attack's own unit.
	short, full int
	// attack runs in a separate process until n is done or ctx ends, and returns how much of n it did. What it opened
	// stays open until that process ends. An error means that the attack itself did not work.
	attack func(ctx context.Context, t *target, n int) (int, error)
	// lingers says that the attack leaves its connections open on purpose: the service is measured while they stay
	// open.
	lingers bool
	// secure says that the short round repeats the abuse over TLS.
	secure bool
	// objects is how many objects of 1 KiB the server holds; 0 is a few.
	objects int
	// peak is how much memory the server may take during the abuse, in bytes; 0 is usualPeak.
	peak int64
	// keeps is how much memory the server may keep for what the abuse left in its database, and for goroutines: the
	// runtime keeps half a KiB for each goroutine of the highest number at any time. In bytes.
	keeps int64
	// args are additional arguments for the server.
	args []string
}

const (
	usualPeak    = 512 << 20
	usualObjects = 100
	objectBytes  = 1 << 10
)

// abuses lists every abuse, family by family.
func abuses() []abuse {
	return slices.Concat(readAbuses(), frameAbuses(), slowAbuses(), messageAbuses(), watchAbuses(), leaseAbuses(),
		txnAbuses(), gatewayAbuses())
}

func abuseNamed(name string) (abuse, bool) {
	all := abuses()
	i := slices.IndexFunc(all, func(a abuse) bool { return a.name == name })
	if i < 0 {
		return abuse{}, false
	}
	return all[i], true
}
