package conditions

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/status"
)

// Period is how often a monitor checks on its own, and so the precision of transition times.
const Period = time.Second

// Monitor keeps a [Set] up to date.
type Monitor struct {
	inputs func(now time.Time) *Inputs
	log    *slog.Logger
	set    Set
	last   *Inputs // of the last check, nil before the first; only one check runs at a time

	mu      sync.Mutex
	running bool          // a check is running, one at a time
	next    chan struct{} // closed by the check that follows the running one; nil if nobody has asked for it
}

// NewMonitor makes a monitor that takes a server's state from inputs, which must be cheap and must not block for long.
// It logs changes after the first check.
func NewMonitor(log *slog.Logger, inputs func(now time.Time) *Inputs) *Monitor {
	return &Monitor{inputs: inputs, log: log}
}

// Run checks once in each [Period] until ctx ends.
func (m *Monitor) Run(ctx context.Context) {
	tick := time.NewTicker(Period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			m.Check()
		}
	}
}

// Check checks now and returns the result.
func (m *Monitor) Check() []status.Condition { return m.CheckContext(context.Background()) }

// CheckContext checks now and returns the result or, if ctx ends first, the previous result. Callers that arrive during
// a check share the next one: its result is not older than their call, and any number of callers waits for at most two
// checks.
func (m *Monitor) CheckContext(ctx context.Context) []status.Condition {
	select {
	case <-m.begin():
	case <-ctx.Done():
	}
	return m.set.List()
}

// begin makes sure that a check starts after this call, and returns a channel that is closed when it ends.
func (m *Monitor) begin() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.next == nil {
		m.next = make(chan struct{})
	}
	done := m.next
	if !m.running {
		m.running = true
		go m.checkLoop()
	}
	return done
}

// checkLoop checks for as long as somebody asks for it.
func (m *Monitor) checkLoop() {
	for {
		m.mu.Lock()
		done := m.next
		m.next = nil
		m.running = done != nil
		m.mu.Unlock()
		if done == nil {
			return
		}
		m.check()
		close(done)
	}
}

func (m *Monitor) check() {
	now := time.Now()
	before := m.set.List()
	in := m.inputs(now)
	if in.Stage == Stopping && m.last != nil {
		in = in.stopping(m.last)
	}
	m.last = in
	changed := m.set.Replace(now, in.Conditions())
	if before != nil {
		logChanges(m.log, before, changed)
	}
}

// List returns the result of the last check.
func (m *Monitor) List() []status.Condition { return m.set.List() }
