package patroni

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// control commits continually over a plain connection, as a client that knows the same nodes as the replicas: while it
// cannot commit, no replica can.
type control struct {
	at chan []time.Time // contains the times when its commits ended
}

func (c *cluster) startControl(a *activity) *control {
	c.Helper()
	c.Execute("CREATE TABLE control (n bigint)")
	c.Execute("INSERT INTO control VALUES (0)")
	k := &control{at: make(chan []time.Time, 1)}
	k.at <- nil
	a.Go(func() {
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for a.ctx.Err() == nil {
			k.commit(a.ctx, c.DSN("postgres")+"&connect_timeout=1", tick)
			<-tick.C
		}
	})
	return k
}

// commit commits at each tick until an error.
func (k *control) commit(ctx context.Context, dsn string, tick *time.Ticker) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for {
		limited, cancel := context.WithTimeout(ctx, requestTimeout)
		_, err := conn.Exec(limited, "UPDATE control SET n = n + 1")
		cancel()
		if err != nil {
			return
		}
		k.at <- append(<-k.at, time.Now())
		<-tick.C
	}
}

// outage returns the longest time between two commits of which the later ended in the span.
func (k *control) outage(began, ended time.Time) (longest time.Duration) {
	at := <-k.at
	defer func() { k.at <- at }()
	for i := 1; i < len(at); i++ {
		if at[i].After(began) && at[i].Before(ended) {
			longest = max(longest, at[i].Sub(at[i-1]))
		}
	}
	return longest
}
