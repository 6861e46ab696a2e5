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
	set   Set

	mu      sync.Mutex
	running bool          // a look is under way, one at a time
	next    chan struct{} // closed by the look that begins when that one ends; nil when nobody has asked for it
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
func (m *Monitor) Look() []Condition { return m.LookContext(context.Background()) }

// LookContext looks now, and returns what it saw, or, when ctx ends before that, what the last look saw. Those who ask
// while a look is under way share the next one: what it sees is not older than their question, and however many they
// are, they wait for two looks at most.
func (m *Monitor) LookContext(ctx context.Context) []Condition {
	select {
	case <-m.begin():
	case <-ctx.Done():
	}
	return m.set.List()
}

// begin sees to it that a look begins from now on, and returns a channel that is closed when it has ended.
func (m *Monitor) begin() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.next == nil {
		m.next = make(chan struct{})
	}
	done := m.next
	if !m.running {
		m.running = true
		go m.looks()
	}
	return done
}

// looks looks for as long as somebody has asked for it.
func (m *Monitor) looks() {
	for {
		m.mu.Lock()
		done := m.next
		m.next = nil
		m.running = done != nil
		m.mu.Unlock()
		if done == nil {
			return
		}
		m.look()
		close(done)
	}
}

func (m *Monitor) look() {
	now := time.Now()
	before := m.set.List()
	changed := m.set.Replace(now, m.facts(now).Conditions())
	if before != nil {
		logChanges(m.log, before, changed)
	}
}

// List returns what the last look saw.
func (m *Monitor) List() []Condition { return m.set.List() }
