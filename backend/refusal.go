package backend

import "fmt"

// Refusal is why a database accepts no more writes until it is opened again, although it may still be read. It wraps
// [ErrUnavailable]: nothing of the refused write was applied.
type Refusal struct {
	Reason string // what has happened, for clients
	Advice string // what an operator can do
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("%v: %s: %s", ErrUnavailable, r.Reason, r.Advice)
}

func (r *Refusal) Unwrap() error { return ErrUnavailable }

// Refusing is a [Backend] that may stop accepting writes.
type Refusing interface {
	// Refused returns an error with the [Refusal] of writes, nil while there is none. If a restart would repair the
	// cause, there is none either: the next write fails and ends the process.
	Refused() error
}
