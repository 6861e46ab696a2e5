package paging

import (
	"errors"
	"fmt"
)

var (
	// ErrInvalid is returned for options that do not go together, and tokens that are none of ours: 400.
	ErrInvalid = errors.New("invalid list options")
	// ErrExpired is matched by every [*ExpiredError]: 410.
	ErrExpired = errors.New("the provided resource version is too old: it has been compacted")
	// ErrTooLarge is matched by every [*TooLargeError]: 504.
	ErrTooLarge = errors.New("Too large resource version") //nolint:staticcheck // Kubernetes' own words
)

// errToken is what every token that does not open meets: why is for nobody to know.
var errToken = fmt.Errorf("%w: continue key is not valid", ErrInvalid)

// ExpiredError tells that a revision has been compacted, or belongs to lost history.
type ExpiredError struct {
	// Continue restarts the list at the same key, at the latest version; "" for a list that asked for no version.
	Continue string
}

func (e *ExpiredError) Error() string { return ErrExpired.Error() }

// Is matches [ErrExpired].
func (e *ExpiredError) Is(target error) bool { return target == ErrExpired }

// TooLargeError tells that a revision has not been written, and was waited for in vain.
type TooLargeError struct{ Requested, Current int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s: %d, current: %d", ErrTooLarge.Error(), e.Requested, e.Current)
}

// Is matches [ErrTooLarge].
func (e *TooLargeError) Is(target error) bool { return target == ErrTooLarge }
