package console

import "context"

// For tests.
var (
	Runbook     = runbook
	StaticPaths = staticPaths
)

// Occupy acquires all slots for pages until free is called.
func (c *Console) Occupy() (free func()) {
	for range cap(c.slots) {
		c.slots <- struct{}{}
	}
	return func() {
		for range cap(c.slots) {
			<-c.slots
		}
	}
}

// BeginCount makes the console believe that a count goes on.
func (c *Console) BeginCount() {
	c.counter.mu.Lock()
	defer c.counter.mu.Unlock()
	c.counter.running = &progress{done: make(chan struct{})}
}

// Sample records a sample of the metrics.
func (c *Console) Sample(ctx context.Context) { c.recent.Sample(ctx) }
