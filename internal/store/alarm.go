package store

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// alarms are those raised, in memory as in the database.
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

// maxAlarms bounds the alarms that clients raise. As in etcd they may name any member and any kind, so that there is no
// end of them.
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

// ReadAlarms returns the alarms that are raised, by whichever replica. Errors: ctx's, those of the backend.
func (s *Store) ReadAlarms(ctx context.Context) ([]Alarm, error) {
	if err := s.confirm(ctx); err != nil {
		return nil, err
	}
	return s.Alarms(), nil
}

// Alarms returns the alarms that this replica knows to be raised.
func (s *Store) Alarms() []Alarm {
	s.alarms.mu.RLock()
	defer s.alarms.mu.RUnlock()
	out := make([]Alarm, len(s.alarms.raised))
	for i, r := range s.alarms.raised {
		out[i] = Alarm{Member: r.Member, Kind: AlarmKind(r.Kind)}
	}
	return out
}

// RaiseAlarm raises an alarm, whatever member it names: one of any member stops the writes that its kind stops. Errors:
// [ErrTooManyAlarms], ctx's, those of the backend.
func (s *Store) RaiseAlarm(ctx context.Context, a Alarm) error {
	_, err := s.seq.do(ctx, &alarmOperation{raise: []backend.Alarm{a.stored()}})
	return err
}

// ClearAlarm clears the alarm of exactly this kind and member, and says whether it was raised.
func (s *Store) ClearAlarm(ctx context.Context, a Alarm) (bool, error) {
	raised, err := s.ReadAlarms(ctx)
	if err != nil || !slices.Contains(raised, a) {
		return false, err
	}
	_, err = s.seq.do(ctx, &alarmOperation{clear: []backend.Alarm{a.stored()}})
	return err == nil, err
}

func (a Alarm) stored() backend.Alarm { return backend.Alarm{Member: a.Member, Kind: int32(a.Kind)} }

// quota knows roughly how large the database is: its size when last looked at, and what was written since.
type quota struct {
	s      *Store
	limit  atomic.Int64
	size   atomic.Int64
	log    int64     // the sequencer's
	looked time.Time // likewise
}

const (
	quotaPeriod = time.Second
	rowOverhead = 256 // a row and its index entries without key and value
)

// SetQuota changes the size of the database that raises the NOSPACE alarm; 0 means 2 GiB, negative none.
func (s *Store) SetQuota(bytes int64) {
	s.quota.limit.Store(Config{QuotaBytes: bytes}.withDefaults().QuotaBytes)
}

func (q *quota) wrote(fx *backend.Effects) {
	for i := range fx.Rows {
		q.size.Add(int64(2*len(fx.Rows[i].Key) + len(fx.Rows[i].Value) + rowOverhead))
	}
}

// exceeded says whether size more bytes go over the quota, and if not so, whether they do together with the log that a
// reader keeps from beginning anew. The sequencer alone calls it.
func (q *quota) exceeded(ctx context.Context, size int64) (over, logged bool) {
	limit := q.limit.Load()
	if limit < 0 {
		return false, false
	}
	over = q.size.Load()+q.log+size > limit
	if now := time.Now(); over || now.Sub(q.looked) > quotaPeriod {
		if n, err := q.s.backend.Size(ctx); err == nil {
			q.size.Store(q.s.peers.used(n))
			q.log, q.looked = n.Log, now
		}
	}
	over = q.size.Load()+size > limit
	return over, q.size.Load()+q.log+size > limit
}

// used leaves out what is free: a shared database uses space again rather than giving it back.
func (r *replica) used(size backend.Size) int64 { return size.InUse }

// intact refuses what changes keys, leases or history while the CORRUPT alarm is raised.
func (e *evaluator) intact() error {
	if e.s.alarms.is(AlarmCorrupt) {
		return ErrCorrupt
	}
	return nil
}

// room refuses what would go over the quota, and raises the alarm that refuses everything like it from then on. What
// the disk's reserve was released for is for deletes and compaction.
func (e *evaluator) room(size int64) error {
	if e.s.alarms.is(AlarmNoSpace) {
		return ErrQuota
	}
	if err := e.s.OutOfSpace(); err != nil {
		return err
	}
	switch over, logged := e.s.quota.exceeded(e.ctx, size); {
	case over:
	case logged:
		// No alarm: it is over as soon as the reader is gone, and neither compaction nor a larger quota would end it.
		return fmt.Errorf("%w by the database's log, which a reader keeps from beginning anew", ErrQuota)
	default:
		return nil
	}
	e.raiseAlarm(backend.Alarm{Member: e.s.settings.MemberID, Kind: int32(AlarmNoSpace)})
	return ErrQuota
}
