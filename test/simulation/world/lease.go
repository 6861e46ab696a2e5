package world

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/test/support/history"
)

// lease grants leases one after the other, attaches keys, keeps each alive for a while, and leaves it to end, until ctx
// ends.
func (c *client) lease(ctx context.Context) {
	for ctx.Err() == nil {
		if id, ttl, ok := c.grant(); ok {
			for i := range 1 + c.IntN(2) {
				key := fmt.Sprintf("%s%d/%d", history.LeasePrefix, id, i)
				_ = c.put(id, key)
			}
			c.keep(ctx, id, ttl, time.Duration(c.IntN(25))*time.Second)
		}
		time.Sleep(upTo(c.Rand, 3*time.Second))
	}
}

func (c *client) grant() (id int64, ttl time.Duration, ok bool) {
	a := c.replica.api()
	if a == nil {
		return 0, 0, false
	}
	ttl = time.Duration(2+c.IntN(6)) * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), opTimeout)
	defer cancel()
	sent := c.w.journal.Now()
	// 1<<62 is the highest id that the store chooses itself.
	id, err := a.grant(ctx, 1+c.Int64N(1<<62), int64(ttl/time.Second))
	if err != nil {
		return 0, 0, false
	}
	c.w.journal.Granted(id, ttl, sent)
	return id, ttl, true
}

// keep renews a lease three times per TTL, with any replica, for a while. A renewal waits for its answer.
func (c *client) keep(ctx context.Context, id int64, ttl, while time.Duration) {
	until := time.Now().Add(while)
	for time.Now().Before(until) && ctx.Err() == nil {
		time.Sleep(ttl / 3)
		a := c.w.replicas[c.IntN(len(c.w.replicas))].api()
		if a == nil {
			continue
		}
		sent := c.w.journal.Now()
		renewing, cancel := context.WithTimeout(context.Background(), opTimeout)
		err := a.renew(renewing, id)
		cancel()
		switch {
		case errors.Is(err, store.ErrLeaseNotFound):
			c.w.journal.Missed(id)
			return
		case err == nil:
			c.w.journal.Renewed(id, sent)
		}
	}
}
