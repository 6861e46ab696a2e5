package audit

import (
	"errors"
	"testing"
)

// A full disk loses entries, and the log says so.
func TestFailingWrites(t *testing.T) {
	l := openLog(t, "/dev/full", Writes)
	l.Add(&Entry{Call: "lost"})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(l.Err(), ErrWrite) || l.Lost() != 1 {
		t.Errorf("%v, %d lost", l.Err(), l.Lost())
	}
}
