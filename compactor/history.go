package compactor

import "time"

// history records which revision was current when.
type history struct {
	epoch int64
	noted []note // oldest first
}

type note struct {
	at  time.Time
	rev int64
}

// record records the current revision. It reads the epoch first, so that the revision cannot belong to an older epoch.
func (h *history) record(now time.Time, e Engine) {
	epoch := e.Epoch()
	h.note(now, e.Revision(), epoch)
}

// note records a revision. After a loss of history it first discards all earlier notes, because their revisions were
// written again later.
func (h *history) note(now time.Time, rev, epoch int64) {
	if n := len(h.noted); epoch != h.epoch || n > 0 && h.noted[n-1].rev > rev {
		h.noted, h.epoch = h.noted[:0], epoch
	}
	h.noted = append(h.noted, note{now, rev})
}

// old returns the newest revision recorded at least age ago.
func (h *history) old(now time.Time, age time.Duration) (rev int64, ok bool) {
	n := h.before(now, age)
	if n == 0 {
		return 0, false
	}
	return h.noted[n-1].rev, true
}

// forget drops the notes older than the newest note that is at least age old.
func (h *history) forget(now time.Time, age time.Duration) {
	if n := h.before(now, age); n > 1 {
		h.noted = append(h.noted[:0], h.noted[n-1:]...)
	}
}

// before returns the number of notes that are at least age old.
func (h *history) before(now time.Time, age time.Duration) (n int) {
	for n < len(h.noted) && now.Sub(h.noted[n].at) >= age {
		n++
	}
	return n
}

// since returns when the oldest note was taken.
func (h *history) since() time.Time { return h.noted[0].at }
