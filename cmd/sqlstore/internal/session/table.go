package session

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/internal/auth"
)

const (
	// Idle is how long a session lives without being used.
	Idle = 30 * time.Minute
	// Longest is how long it lives in any case.
	Longest = 12 * time.Hour
	// Most is how many sessions there are at a time.
	Most = 1024
	// MostOfUser is how many of them one user has.
	MostOfUser = 16
)

// Session is a user who has logged in.
type Session struct {
	// Identity is the user, as of when the password was checked.
	Identity auth.Identity

	key   sum
	ctx   context.Context
	end   context.CancelFunc
	began time.Time
	used  time.Time   // guarded by the table
	timer *time.Timer // ends it
}

// Context ends with the session.
func (s *Session) Context() context.Context { return s.ctx }

// Ended reports whether the session has ended.
func (s *Session) Ended() bool { return s.ctx.Err() != nil }

// sum is the hash of a key.
type sum [sha256.Size]byte

// Table holds sessions.
type Table struct {
	ctx context.Context
	mu  sync.Mutex
	by  map[sum]*Session
}

// NewTable returns a table whose sessions end with ctx.
func NewTable(ctx context.Context) *Table {
	t := &Table{ctx: ctx, by: map[sum]*Session{}}
	context.AfterFunc(ctx, t.endAll)
	return t
}

// Begin begins a session, and returns the key that finds it.
func (t *Table) Begin(id auth.Identity) (key string, s *Session) {
	key, now := rand.Text(), time.Now()
	s = &Session{Identity: id, key: sha256.Sum256([]byte(key)), began: now, used: now}
	s.ctx, s.end = context.WithCancel(t.ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.evict(id.User)
	s.timer = time.AfterFunc(Idle, func() { t.End(s) })
	t.by[s.key] = s
	if t.ctx.Err() != nil { // endAll may be over
		t.remove(s)
	}
	return key, s
}

// evict ends a session if one more of a user would be too many.
func (t *Table) evict(user string) {
	var oldest, own *Session
	n := 0
	for _, s := range t.by {
		if oldest == nil || s.used.Before(oldest.used) {
			oldest = s
		}
		if s.Identity.User != user {
			continue
		}
		if n++; own == nil || s.used.Before(own.used) {
			own = s
		}
	}
	switch {
	case n >= MostOfUser:
		t.remove(own)
	case len(t.by) >= Most:
		t.remove(oldest)
	}
}

// Find returns the session with a key, nil if there is none. If its user is active, the session lives on.
func (t *Table) Find(key string, active bool) *Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.by[sha256.Sum256([]byte(key))]
	if s == nil {
		return nil
	}
	now := time.Now()
	if now.Sub(s.used) >= Idle || now.Sub(s.began) >= Longest { // the machine may have slept over the timer
		t.remove(s)
		return nil
	}
	if active {
		s.used = now
		s.timer.Reset(min(Idle, Longest-now.Sub(s.began)))
	}
	return s
}

// End ends a session.
func (t *Table) End(s *Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.remove(s)
}

func (t *Table) remove(s *Session) {
	s.timer.Stop()
	s.end()
	delete(t.by, s.key)
}

func (t *Table) endAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.by {
		t.remove(s)
	}
}
