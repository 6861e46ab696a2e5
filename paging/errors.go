package paging

import (
	"errors"
	"fmt"
)

var (
	// ErrInvalid is returned for invalid options or combinations of options, and for tokens that were not made for the
	// list. It corresponds to HTTP status 400.
	ErrInvalid = errors.New("invalid list options")
	// ErrExpired is matched by every [*ExpiredError]. It corresponds to HTTP status 410.
	ErrExpired = errors.New("the provided resource version is too old: it has been compacted")
	// ErrTooLarge is matched by every [*TooLargeError]. It corresponds to HTTP status 504.
	ErrTooLarge = errors.New("Too large resource version") //nolint:staticcheck // Kubernetes' own words
)

// errToken is returned for every token that cannot be opened. It must not reveal why.
var errToken = fmt.Errorf("%w: continue key is not valid", ErrInvalid)

// ExpiredError means that a revision has been compacted, or belongs to lost history.
type ExpiredError struct {
	// Continue restarts the list at the same key, at the latest version; "" for a list without a resource version.
	Continue string
}

func (e *ExpiredError) Error() string { return ErrExpired.Error() }

// Is matches [ErrExpired].
func (e *ExpiredError) Is(target error) bool { return target == ErrExpired }

// TooLargeError means that a revision has not been written, and did not appear while waiting.
type TooLargeError struct{ Requested, Current int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s: %d, current: %d", ErrTooLarge.Error(), e.Requested, e.Current)
}

// Is matches [ErrTooLarge].
func (e *TooLargeError) Is(target error) bool { return target == ErrTooLarge }
