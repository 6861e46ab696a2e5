package conditions

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Period is how often a monitor looks by itself: transition times are right to about that.
const Period = time.Second

// Monitor keeps a [Set] up to date.
type Monitor struct {
	facts func(now time.Time) *Facts
	log   *slog.Logger
	mu    sync.Mutex // one look at a time
	set   Set
}

// NewMonitor makes a monitor that takes the state of a server from facts, which must be cheap and must not block for long. It logs
// what changes, after the first look, to log.
func NewMonitor(log *slog.Logger, facts func(now time.Time) *Facts) *Monitor {
	return &Monitor{facts: facts, log: log}
}

// Run looks once in each [Period] until ctx ends.
func (m *Monitor) Run(ctx context.Context) {
	tick := time.NewTicker(Period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			m.Look()
		}
	}
}

// Look looks now, and returns what it saw.
func (m *Monitor) Look() []Condition {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	first := m.set.List() == nil
	changed := m.set.Replace(now, m.facts(now).Conditions())
	for i := range changed {
		if c := &changed[i]; !first {
			m.log.Info("condition has changed", "type", c.Type, "status", c.Status, "reason", c.Reason, "message", c.Message)
		}
	}
	return m.set.List()
}

// List returns what the last look saw.
func (m *Monitor) List() []Condition { return m.set.List() }
