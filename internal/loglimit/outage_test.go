package loglimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sqlstore/sqlstore/internal/loglimit"
)

// tries runs work that is tried ten times a second for some time, and returns how many failures and ends of them are to
// be logged.
func tries(o *loglimit.Outage, lasts time.Duration, works func(try int) bool) (failures, ends int) {
	for try := range int(lasts / (100 * time.Millisecond)) {
		if works(try) {
			if o.Worked() {
				ends++
			}
		} else if o.Failed() {
			failures++
		}
		time.Sleep(100 * time.Millisecond)
	}
	return failures, ends
}

func TestOutage(t *testing.T) {
	always := func(int) bool { return true }
	never := func(int) bool { return false }
	synctest.Test(t, func(t *testing.T) {
		var o loglimit.Outage
		for _, step := range []struct {
			what           string
			lasts          time.Duration
			works          func(int) bool
			failures, ends int
		}{
			{"it works", time.Hour, always, 0, 0},
			{"it fails for some minutes", 10*time.Minute - time.Second, never, 10, 0},
			{"it works again", 2 * time.Minute, always, 0, 1},
			{"it fails for a moment", time.Second, never, 1, 0},
			{"it works again", 2 * time.Minute, always, 0, 1},
			{"every other try fails", 10*time.Minute - time.Second, func(try int) bool { return try%2 == 1 }, 10, 10},
		} {
			failures, ends := tries(&o, step.lasts, step.works)
			if failures != step.failures || ends != step.ends {
				t.Errorf("%s: %d failures and %d ends are logged, want %d and %d", step.what, failures, ends,
					step.failures, step.ends)
			}
		}
	})
}
