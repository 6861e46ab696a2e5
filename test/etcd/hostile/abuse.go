package hostile

import (
	"context"
	"slices"
)

// abuse is one way to treat a server as no well-meaning client would. Every abuse is bounded in count and in time.
type abuse struct {
	// name is the subtest's name and the row of the table.
	name string
	// short and full are how much of it a short and a full round do, in units of the attack's own.
	short, full int
	// attack runs in a process of its own until n is done or ctx ends, and returns how much of n it did. What it opened
	// stays open until that process ends. An error means that it could not do what it is for.
	attack func(ctx context.Context, t *target, n int) (int, error)
	// lingers says that the attack leaves its connections open on purpose: the service is measured while they are.
	lingers bool
	// secure says that the short round does it over TLS, too.
	secure bool
	// objects is how many objects of 1 KiB the server holds; 0 is a few.
	objects int
	// peak is how much memory the server may take meanwhile, in bytes; 0 is usualPeak.
	peak int64
	// keeps is how much memory the server may keep for what the abuse left in its database, and for goroutines: the
	// runtime keeps half a KiB for each of the most that there were at a time. In bytes.
	keeps int64
	// args are what the server is started with besides.
	args []string
}

const (
	usualPeak    = 512 << 20
	usualObjects = 100
	objectBytes  = 1 << 10
)

// abuses are all of them, family by family.
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
