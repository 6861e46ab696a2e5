package rig

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// holding reports whether an idle session from an address holds a lock: it has the clock and is between its two round
// trips. This is certain only in a steady state, so the test asks twice.
const holding = `SELECT count(*) > 0 FROM pg_stat_activity
	WHERE datname = $1 AND client_addr = $2::inet AND state = 'idle in transaction' AND backend_xid IS NOT NULL`

// FreezeHolder stops a replica (SIGSTOP) while it holds the clock row, and retries until it succeeds. Signal
// with CONT thaws it.
func (c *Cluster) FreezeHolder(ctx context.Context, r *Replica) (attempts int, err error) {
	conn, err := c.Primary.Connect(ctx, c.Database)
	if err != nil {
		return 0, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	holds := func() (is bool, err error) {
		err = conn.QueryRow(ctx, holding, c.Database, r.Addr.String()).Scan(&is)
		return is, err
	}
	for attempts = 1; ; attempts++ {
		if err := r.Signal("STOP"); err != nil {
			return attempts, err
		}
		is, err := holds()
		if err == nil && is {
			// The statements that it had sent are done by now, and it still holds the row.
			if err := pause(ctx, 100*time.Millisecond); err != nil {
				return attempts, err
			}
			if is, err = holds(); err == nil && is {
				return attempts, nil
			}
		}
		if errCont := r.Signal("CONT"); errCont != nil || err != nil {
			return attempts, fmt.Errorf("freeze %s while it holds the clock: %w, %w", r.Name, err, errCont)
		}
		if err := pause(ctx, time.Duration(rand.IntN(40))*time.Millisecond); err != nil {
			return attempts, fmt.Errorf("%s was never stopped while it held the clock, in %d attempts: %w", r.Name,
				attempts, err)
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
