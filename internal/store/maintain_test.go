package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// sized is a database whose size the test sets.
type sized struct {
	backend.Backend
	bytes, measured atomic.Int64
}

func (s *sized) Size(context.Context) (backend.Size, error) {
	s.measured.Add(1)
	return backend.Size{Total: s.bytes.Load(), InUse: s.bytes.Load()}, nil
}

func TestQuota(t *testing.T) {
	b := &sized{Backend: openSQLite(t)}
	s := openStore(t, b, Config{QuotaBytes: 1000})
	grant(t, s, 1, 100, "a")
	b.bytes.Store(1001)
	over := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, ErrQuota) {
			t.Errorf("%s returned %v", what, err)
		}
	}
	_, err := s.Put(within(t), &PutRequest{Key: []byte("b"), Value: make([]byte, 1000)})
	over("a put", err)
	if a := s.Alarms(); len(a) != 1 || a[0].Kind != AlarmNoSpace {
		t.Fatalf("alarms are %v", a)
	}
	b.bytes.Store(10) // free space alone does not clear the alarm
	_, err = s.Put(within(t), &PutRequest{Key: []byte("b")})
	over("the next put", err)
	_, err = s.LeaseGrant(within(t), 0, 10)
	over("a grant", err)
	_, err = s.Txn(within(t), &Txn{Failure: []Op{{Put: &PutRequest{Key: []byte("b")}}}})
	over("a transaction that could put", err)
	if stored, err := b.Alarms(within(t)); err != nil || len(stored) != 1 {
		t.Errorf("the database has %v, %v", stored, err)
	}
	if r := get(t, s, "a", 0); r == nil {
		t.Error("the key is not readable")
	}
	if _, err := s.LeaseRevoke(within(t), 1); err != nil {
		t.Errorf("a revocation returned %v", err)
	}
	if _, err := s.Delete(within(t), &DeleteRequest{Key: []byte("a")}); err != nil {
		t.Errorf("a deletion returned %v", err)
	}
	if _, err := s.Compact(within(t), s.Revision(), true); err != nil {
		t.Errorf("a compaction returned %v", err)
	}
	if cleared, err := s.ClearAlarm(within(t), s.Alarms()[0]); err != nil || !cleared || len(s.Alarms()) != 0 {
		t.Errorf("cleared %v, %v", cleared, err)
	}
	put(t, s, "b", "")
}

// The puts of a batch measure the database once, however many the quota refuses.
func TestQuotaMeasuresOnce(t *testing.T) {
	gate := newBlocked()
	f := &faults{Backend: openSQLite(t)}
	f.commit = func(_ *backend.Effects, through func() error) error {
		gate.first()
		return through()
	}
	b := &sized{Backend: f}
	s := openStore(t, b, Config{QuotaBytes: 1 << 40})
	var wg sync.WaitGroup
	wg.Go(func() { put(t, s, "first", "") })
	<-gate.entered
	s.SetQuota(1)
	b.bytes.Store(2)
	const calls = 100
	for i := range calls {
		wg.Go(func() {
			if _, err := s.Put(within(t), &PutRequest{Key: fmt.Append(nil, i)}); !errors.Is(err, ErrQuota) {
				t.Errorf("a put over the quota returned %v", err)
			}
		})
	}
	waiting(t, s, calls)
	before := b.measured.Load()
	close(gate.release)
	wg.Wait()
	if n := b.measured.Load() - before; n != 1 {
		t.Errorf("%d puts measured the database %d times", calls, n)
	}
}

// released is a database that has released its disk reserve.
type released struct {
	backend.Backend
	full atomic.Bool
}

func (r *released) OutOfSpace() error {
	if r.full.Load() {
		return fmt.Errorf("%w: the reserve is released", backend.ErrNoSpace)
	}
	return nil
}

func (r *released) Reserved() int64 { return 0 }

func TestReleasedReserve(t *testing.T) {
	b := &released{Backend: openSQLite(t)}
	s := openStore(t, b, Config{})
	grant(t, s, 1, 100, "a")
	put(t, s, "b", "")
	b.full.Store(true)
	_, put1 := s.Put(within(t), &PutRequest{Key: []byte("c")})
	_, grant2 := s.LeaseGrant(within(t), 0, 10)
	for what, err := range map[string]error{"a put": put1, "a grant": grant2, "the state": s.OutOfSpace()} {
		if !errors.Is(err, backend.ErrNoSpace) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := s.LeaseRevoke(within(t), 1); err != nil {
		t.Errorf("a revocation: %v", err)
	}
	if _, err := s.Delete(within(t), &DeleteRequest{Key: []byte("b")}); err != nil {
		t.Errorf("a deletion: %v", err)
	}
	if _, err := s.Compact(within(t), s.Revision(), true); err != nil {
		t.Errorf("a compaction: %v", err)
	}
	if len(s.Alarms()) != 0 {
		t.Errorf("alarms are %v", s.Alarms())
	}
	b.full.Store(false)
	put(t, s, "c", "")
}

// Clients cannot fill the database with alarms, nor prevent the store from raising its own.
func TestAlarmsAreBounded(t *testing.T) {
	s := openStore(t, openSQLite(t), Config{})
	for i := range maxAlarms {
		if err := s.RaiseAlarm(within(t), Alarm{Member: uint64(i), Kind: AlarmKind(i + 3)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.RaiseAlarm(within(t), Alarm{Member: 1, Kind: AlarmCorrupt}); !errors.Is(err, ErrTooManyAlarms) {
		t.Errorf("an alarm over the limit returned %v", err)
	}
	if err := s.RaiseAlarm(within(t), Alarm{Member: 7, Kind: 10}); err != nil {
		t.Errorf("an alarm that is already raised returned %v", err)
	}
	s.SetQuota(1)
	if _, err := s.Put(within(t), &PutRequest{Key: []byte("a")}); !errors.Is(err, ErrQuota) {
		t.Errorf("a put over the quota returned %v", err)
	}
	if n := len(s.Alarms()); n != maxAlarms+1 || !s.alarms.is(AlarmNoSpace) {
		t.Errorf("%d alarms", n)
	}
	if was, err := s.ClearAlarm(within(t), Alarm{Member: 0, Kind: 3}); err != nil || !was {
		t.Errorf("clearing an alarm returned %v, %v", was, err)
	}
}

func TestAlarmsSurviveARestart(t *testing.T) {
	b := openSQLite(t)
	s := openStore(t, b, Config{})
	if err := s.RaiseAlarm(within(t), Alarm{Member: 55, Kind: AlarmNoSpace}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, b, Config{})
	if _, err := s.Put(within(t), &PutRequest{Key: []byte("a")}); !errors.Is(err, ErrQuota) {
		t.Errorf("got %v", err)
	}
}

func TestTransactionRowsAreBounded(t *testing.T) {
	eachIndex(t, func(t *testing.T, cfg Config) {
		cfg.TxnRows = 3
		s := openStore(t, openSQLite(t), cfg)
		for i := range 4 {
			put(t, s, fmt.Sprint(i), "")
		}
		all := &DeleteRequest{Key: []byte{0}, End: []byte{0}}
		if _, err := s.Delete(within(t), all); !errors.Is(err, ErrTxnTooLarge) {
			t.Errorf("deleting too many keys returned %v", err)
		}
		if _, err := s.Delete(within(t), &DeleteRequest{Key: []byte("3")}); err != nil {
			t.Fatal(err)
		}
		if res, err := s.Delete(within(t), all); err != nil || res.Deleted != 3 {
			t.Errorf("deleting the rest returned %+v, %v", res, err)
		}
	})
}

// An export holds what etcd's compacted store holds: every row above the compacted revision, and the rows alive at it.
func TestExport(t *testing.T) {
	w := newWorld(t, small(Config{}), false, 0, randomBytes(7, 2500))
	grant(t, w.s, 99, 1000)
	for !w.g.done() {
		w.txn(within(t))
	}
	compacted := w.m.rev / 2
	if _, err := w.s.Compact(within(t), compacted, false); err != nil {
		t.Fatal(err)
	}
	x, err := w.s.Export(within(t))
	if err != nil {
		t.Fatal(err)
	}
	// During the export, a purge may remove rows that the export leaves out, but none that it holds.
	later := put(t, w.s, "later", "")
	if _, err := w.s.Compact(within(t), later, false); err != nil {
		t.Fatal(err)
	}
	for {
		res, err := w.s.PurgeStep(within(t), 1000)
		if err != nil || res.Done || res.Through > compacted {
			t.Fatalf("a purge removes rows while an export reads them: %+v, %v", res, err)
		}
		if res == (backend.PurgeResult{}) {
			break
		}
	}
	var got []string
	err = x.Rows(within(t), func(r backend.Row) error {
		got = append(got, rowText(&r))
		return nil
	})
	x.Close()
	if err != nil || x.Revision != w.m.rev || x.Compacted != compacted || len(x.Leases) != 1 || x.Leases[0].ID != 99 {
		t.Fatalf("exported %+v, %v", x, err)
	}
	var want []string
	alive := w.m.at(compacted)
	for i := range w.m.rows {
		r := &w.m.rows[i]
		now, ok := alive[string(r.Key)]
		if r.ModRevision > compacted || r.Deleted && r.ModRevision == compacted ||
			ok && !r.Deleted && now.ModRevision == r.ModRevision {
			want = append(want, rowText(r))
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("exported\n%v\nwant\n%v", got, want)
	}
	if res, err := w.s.PurgeStep(within(t), 100_000); err != nil || !res.Done {
		t.Errorf("after the export: %+v, %v", res, err)
	}
}
