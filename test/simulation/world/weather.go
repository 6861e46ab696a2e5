package world

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/internal/testing/simdb"
)

// weather decides the fate of each request from the seed, the request's identity and the weather of the moment. So a
// request more of one kind does not change the fate of the others.
type weather struct {
	seed uint64

	mu    sync.Mutex
	now   climate
	trap  string        // a kind of request
	fired chan struct{} // has capacity one: such a request was sent
	trace *trace
	count func(fault string)
}

// climate is a state of the network and of the server. Chances are per thousand requests.
type climate struct {
	name                   string
	usual                  time.Duration // until a request arrives, at most; an answer takes as long
	slow                   int
	slowness               time.Duration // at most, in addition, of a slow request or answer
	lost, lostAnswer       int
	refused, broken        int
	notifyLost, notifyLate int
	notifyLateness         time.Duration
	late                   string // requests of this kind come late
	lateness               time.Duration
}

var (
	fair = climate{name: "fair", usual: 2 * time.Millisecond}
	// slowHearts delays heartbeats, which take several round trips.
	slowHearts = climate{
		name: "slow heartbeats", usual: 2 * time.Millisecond, late: "heartbeat trip", lateness: time.Second,
	}
	climates = []climate{
		{name: "slow answers", usual: 5 * time.Millisecond, slow: 60, slowness: 3 * time.Second},
		{name: "lost answers", usual: 3 * time.Millisecond, lostAnswer: 15},
		{name: "lost requests", usual: 3 * time.Millisecond, lost: 15},
		{name: "broken connections", usual: 3 * time.Millisecond, broken: 40},
		{name: "statement timeouts", usual: 3 * time.Millisecond, refused: 30, slow: 10, slowness: 9 * time.Second},
		{
			name: "lost and late notifications", usual: 3 * time.Millisecond, notifyLost: 400, notifyLate: 300,
			notifyLateness: 4 * time.Second,
		},
		slowHearts,
		{name: "far away", usual: 120 * time.Millisecond},
	}
)

func (w *weather) set(c climate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = c
}

// await waits until a request of a kind is sent, but not for long. The request has not arrived yet then.
func (w *weather) await(kind string) {
	w.mu.Lock()
	w.trap = kind
	w.mu.Unlock()
	select {
	case <-w.fired:
	case <-time.After(10 * time.Second):
		w.mu.Lock()
		if w.trap == "" {
			<-w.fired
		}
		w.trap = ""
		w.mu.Unlock()
	}
}

// fate is a [simdb.Network].
func (w *weather) fate(q simdb.Request) (f simdb.Fate) {
	w.mu.Lock()
	c := w.now
	if q.Kind == w.trap {
		w.trap = ""
		w.fired <- struct{}{}
	}
	w.mu.Unlock()
	h := mix(w.seed, q.Kind, uint64(q.Client)<<48|q.Number)
	w.trace.note(q.Kind, uint64(q.Client), q.Number)
	r := rand.New(rand.NewPCG(h, uint64(len(c.name))))
	in := func(chance int, what string) bool {
		if r.IntN(1000) >= chance {
			return false
		}
		w.count(what)
		return true
	}
	f.Before, f.After = upTo(r, c.usual), upTo(r, c.usual)
	if q.Kind == "notify" {
		f.Lost = in(c.notifyLost, "notification lost")
		if in(c.notifyLate, "notification late") {
			f.After += upTo(r, c.notifyLateness)
		}
		return f
	}
	if q.Kind == c.late {
		f.Before += upTo(r, c.lateness)
	}
	if in(c.slow, "request or answer slow") {
		if late := upTo(r, c.slowness); r.IntN(2) == 0 {
			f.Before += late
		} else {
			f.After += late
		}
	}
	f.Lost, f.LostAnswer = in(c.lost, "request lost"), in(c.lostAnswer, "answer lost")
	f.Refused = in(c.refused, "statement refused")
	f.Broken = in(c.broken, "connection broken")
	return f
}

// upTo returns a duration from 1 to most.
func upTo(r *rand.Rand, most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	return time.Duration(1 + r.Int64N(int64(most)))
}
