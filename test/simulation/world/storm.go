package world

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/test/support/history"
)

const (
	// calm is how long there must have been no faults before a storm.
	calm = 15 * time.Second
	// stormWriters write stormBytes each, again and again, on every replica. One batch of them is more than a replica
	// reads of what others wrote while it holds the clock.
	stormWriters = 40
	stormBytes   = 10 << 10
	stormTime    = 500 * time.Millisecond
)

// storm makes all replicas write as much as they can. There are no faults, so none of them may fail.
func (g *gremlin) storm() {
	g.stormed = true
	g.w.weather.set(fair)
	time.Sleep(calm)
	g.w.count("storm of writes")
	ctx, cancel := context.WithTimeout(context.Background(), stormTime)
	defer cancel()
	padding := strings.Repeat(".", stormBytes)
	acknowledged := make([]int, len(g.w.replicas))
	var wg sync.WaitGroup
	var mu sync.Mutex
	for i, r := range g.w.replicas {
		for j := range stormWriters {
			c := &client{source(g.w.seed, fmt.Sprint("storm ", i, j)), g.w, 1000 + 100*i + j, r}
			wg.Go(func() {
				for ctx.Err() == nil {
					err := c.write(history.Op{Kind: history.Put, Keys: []string{fmt.Sprintf("b/%d/%d", i, j)}}, padding)
					if errors.Is(err, errDown) {
						return // it never came back from a fault; recover says so
					}
					if err != nil {
						g.w.problem("%s, without faults and while others write: %v", r.name, err)
						return
					}
					mu.Lock()
					acknowledged[i]++
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	for i, n := range acknowledged {
		if n < stormWriters && g.w.replicas[i].current() != nil {
			g.w.problem("%s had %d writes acknowledged while others wrote: %v", g.w.replicas[i].name, n, acknowledged)
		}
	}
}
