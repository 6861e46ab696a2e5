package store

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/auth"
)

// alarms holds the raised alarms in memory, as they are in the database.
type alarms struct {
	mu     sync.RWMutex
	raised []backend.Alarm
}

func (a *alarms) load(ctx context.Context, b backend.Backend) error {
	raised, err := b.Alarms(ctx)
	if err != nil {
		return fmt.Errorf("read alarms: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.raised = raised
	return nil
}

// maxAlarms bounds the alarms that clients raise. As in etcd, a client may name any member and any kind, so without it
// there would be no limit.
const maxAlarms = 256

func (a *alarms) has(alarm backend.Alarm) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return slices.Contains(a.raised, alarm)
}

func (a *alarms) count() int {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return len(a.raised)
}

func (a *alarms) is(kind AlarmKind) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return slices.ContainsFunc(a.raised, func(r backend.Alarm) bool { return r.Kind == int32(kind) })
}

func (a *alarms) apply(fx *backend.Effects) {
	if len(fx.Raised)+len(fx.Cleared) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range fx.Raised {
		if !slices.Contains(a.raised, r) {
			a.raised = append(a.raised, r)
		}
	}
	a.raised = slices.DeleteFunc(a.raised, func(r backend.Alarm) bool { return slices.Contains(fx.Cleared, r) })
}

// ReadAlarms returns the alarms raised by any replica, to callers with credentials. Errors: those of
// [auth.State.Known], ctx's, those of the backend.
func (s *Store) ReadAlarms(ctx context.Context) ([]Alarm, error) {
	state, err := s.ConfirmAuth(ctx)
	if err == nil {
		err = state.Known(auth.From(ctx))
	}
	if err != nil {
		return nil, err
	}
	return s.Alarms(), nil
}

// Alarms returns the alarms that this replica knows to be raised, without asking the database.
func (s *Store) Alarms() []Alarm {
	s.alarms.mu.RLock()
	defer s.alarms.mu.RUnlock()
	out := make([]Alarm, len(s.alarms.raised))
	for i, r := range s.alarms.raised {
		out[i] = Alarm{Member: r.Member, Kind: AlarmKind(r.Kind)}
	}
	return out
}

// RaiseAlarm raises an alarm. An alarm of any member stops the writes that its kind stops. Errors: those of
// [auth.State.IsAdmin], [ErrTooManyAlarms], ctx's, those of the backend.
func (s *Store) RaiseAlarm(ctx context.Context, a Alarm) error {
	_, err := s.seq.do(ctx, &alarmOperation{raise: []backend.Alarm{a.stored()}})
	return err
}

// ClearAlarm clears the alarm with exactly this kind and member, and reports whether it was raised. Errors: those
// of [auth.State.IsAdmin], ctx's, those of the sequencer and the backend.
func (s *Store) ClearAlarm(ctx context.Context, a Alarm) (bool, error) {
	if err := s.CheckAdmin(ctx); err != nil {
		return false, err
	}
	raised, err := s.ReadAlarms(ctx)
	if err != nil || !slices.Contains(raised, a) {
		return false, err
	}
	_, err = s.seq.do(ctx, &alarmOperation{clear: []backend.Alarm{a.stored()}})
	return err == nil, err
}

func (a Alarm) stored() backend.Alarm { return backend.Alarm{Member: a.Member, Kind: int32(a.Kind)} }

// quota tracks roughly how large the database is: its size when last measured, plus what was written since.
type quota struct {
	s         *Store
	limit     atomic.Int64
	written   atomic.Int64 // bytes since the start
	base      atomic.Int64 // the size when last measured, less what was written until then
	log       atomic.Int64 // size of the database's log
	measuring atomic.Bool  // in the background

	// Used by the sequencer only:
	measured time.Time // when the last measurement began
	fresh    bool      // it was for the batch under way
}

const (
	quotaPeriod = time.Second
	rowOverhead = 256 // bytes of a row and its index entries, without key and value
)

// SetQuota changes the database size, in bytes, above which the NOSPACE alarm is raised; 0 means 2 GiB, negative none.
func (s *Store) SetQuota(bytes int64) {
	s.quota.limit.Store(Config{QuotaBytes: bytes}.withDefaults().QuotaBytes)
}

func (q *quota) wrote(fx *backend.Effects) {
	bytes := 0
	for i := range fx.Rows {
		bytes += 2*len(fx.Rows[i].Key) + len(fx.Rows[i].Value) + rowOverhead
	}
	q.written.Add(int64(bytes))
}

func (q *quota) size() int64 { return q.base.Load() + q.written.Load() }

func (q *quota) measure(ctx context.Context) error {
	before := q.written.Load()
	n, err := q.s.backend.Size(ctx)
	if err == nil {
		q.base.Store(q.s.peers.used(n) - before)
		q.log.Store(n.Log)
	}
	return err
}

// exceeded reports whether size more bytes exceed the quota (over), and whether they exceed it once the database's log
// counts, too (logged): a reader can keep the log from restarting. Only the sequencer calls it. All other writes wait
// for it, so a batch measures at most once, before it refuses anything; otherwise the background measures.
func (q *quota) exceeded(ctx context.Context, size int64) (over, logged bool) {
	limit := q.limit.Load()
	if limit < 0 {
		return false, false
	}
	switch now := time.Now(); {
	case q.fresh:
	case q.measured.IsZero(), q.size()+q.log.Load()+size > limit:
		q.fresh = true
		if q.measure(ctx) == nil {
			q.measured = now
		}
	case now.Sub(q.measured) > quotaPeriod && q.measuring.CompareAndSwap(false, true):
		q.measured = now
		q.s.background.start(func() {
			_ = q.measure(q.s.ctx) // the next one may succeed
			q.measuring.Store(false)
		})
	}
	over = q.size()+size > limit
	return over, q.size()+q.log.Load()+size > limit
}

// used leaves out free space: a shared database reuses space rather than giving it back.
func (r *replica) used(size backend.Size) int64 { return size.InUse }

// intact refuses changes to keys, leases or history while the CORRUPT alarm is raised. Errors: [ErrCorrupt].
func (e *evaluator) intact() error {
	if e.s.alarms.is(AlarmCorrupt) {
		return ErrCorrupt
	}
	return nil
}

// checkQuota refuses a write that would exceed the quota, and raises the NOSPACE alarm, which refuses all further ones.
// It also refuses writes while the disk's reserve is released, because that space is for deletes and compaction.
func (e *evaluator) checkQuota(size int64) error {
	full := backend.Alarm{Member: e.s.settings.MemberID, Kind: int32(AlarmNoSpace)}
	if e.s.alarms.is(AlarmNoSpace) || slices.Contains(e.effects.Raised, full) {
		return ErrQuota
	}
	if err := e.s.OutOfSpace(); err != nil {
		return err
	}
	switch over, logged := e.s.quota.exceeded(e.ctx, size); {
	case over:
	case logged:
		// No alarm: this ends as soon as the reader is gone, and neither compaction nor a larger quota would clear it.
		return fmt.Errorf("%w by the database's log, which a reader keeps from beginning anew", ErrQuota)
	default:
		return nil
	}
	e.raiseAlarm(full)
	return ErrQuota
}
