package loglimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sqlstore/sqlstore/internal/loglimit"
)

func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := loglimit.Limit{Lines: 2, Period: 10 * time.Second}
		for i, want := range []struct {
			skipped int
			ok      bool
			after   time.Duration
		}{
			{0, true, 0},
			{0, true, 0},
			{0, false, 0},
			{0, false, 5 * time.Second},
			{0, false, 5 * time.Second},
			{3, true, 0},
			{0, true, 0},
			{0, false, 0},
		} {
			if skipped, ok := l.Allow(); skipped != want.skipped || ok != want.ok {
				t.Errorf("line %d: %d skipped, %v; want %+v", i, skipped, ok, want)
			}
			time.Sleep(want.after)
		}
	})
}
