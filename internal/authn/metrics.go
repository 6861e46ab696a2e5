package authn

import (
	"sync/atomic"
	"time"
)

// failurePeriod is the period in which a number of failed logins is logged.
const failurePeriod = 10 * time.Second

// counters count logins by their result.
type counters struct{ succeeded, failed, throttled atomic.Uint64 }

// Logins returns how many logins have succeeded, failed, and been refused because of too many failures before.
func (a *Authenticator) Logins() (succeeded, failed, throttled uint64) {
	return a.counts.succeeded.Load(), a.counts.failed.Load(), a.counts.throttled.Load()
}
