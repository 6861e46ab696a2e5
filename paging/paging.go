// Package paging reads Kubernetes-style: lists in chunks that are one consistent snapshot, at resource versions matched as
// KEP-2523 says, with continue tokens that every replica understands.
package paging

import (
	"context"
	"errors"
	"fmt"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/store"
)

// Engine is what a Pager needs of a store.
type Engine interface {
	Range(ctx context.Context, req *store.RangeRequest) (*store.RangeResult, error)
	RangeStream(ctx context.Context, req *store.RangeRequest, send func(rows []*store.Row) error) (*store.RangeResult, error)
	Revision() int64
	Incarnation() int64
}

// TokenKeys is where the keys that seal continue tokens are kept, for all processes that share the database.
type TokenKeys interface {
	TokenKeys(ctx context.Context) ([]backend.TokenKey, error)
}

// ListOptions are a list's query parameters, as given.
type ListOptions struct {
	ResourceVersion      string // "", "0" or a revision
	ResourceVersionMatch string // "", "Exact" or "NotOlderThan"
	Limit                int64  // rows at most; 0 means no limit
	Continue             string // the token of the page before
}

// Page is what a list tells besides its rows; ListMeta, in Kubernetes' words.
type Page struct {
	Revision  int64  // of all rows
	Continue  string // the token for the next page, "" after the last one
	Remaining int64  // rows behind this page; 0 after the last one
}

// GetOptions are a get's query parameters, as given.
type GetOptions struct {
	ResourceVersion string // "" is the most recent, "0" any, N not older than N
}

// WatchOptions are a watch's query parameters, as given.
type WatchOptions struct {
	ResourceVersion      string
	ResourceVersionMatch string
	SendInitialEvents    *bool // nil when not given
	AllowWatchBookmarks  bool
	Limit                int64
	Continue             string
}

// WatchStart is how a watch begins.
type WatchStart struct {
	// State says that the objects that exist are sent first, as a list with List's options gives them; the watch goes on after
	// that list's revision.
	State bool
	List  ListOptions
	// After is the revision behind which the watch begins when State is false; 0 means with the next write.
	After int64
	// EndBookmark says that the state is followed by the bookmark that tells its end.
	EndBookmark bool
}

var (
	// ErrInvalid is returned for options that do not go together, and tokens that are none of ours: 400.
	ErrInvalid = errors.New("invalid list options")
	// ErrExpired is matched by every [*ExpiredError]: 410.
	ErrExpired = errors.New("the provided resource version is too old: it has been compacted")
	// ErrTooLarge is matched by every [*TooLargeError]: 504.
	ErrTooLarge = errors.New("Too large resource version") //nolint:staticcheck // Kubernetes' own words
)

// ExpiredError tells that a revision has been compacted, or belongs to lost history.
type ExpiredError struct {
	// Continue restarts the list at the same key, at the latest version; "" where there is no such place.
	Continue string
}

func (e *ExpiredError) Error() string        { return ErrExpired.Error() }
func (e *ExpiredError) Is(target error) bool { return target == ErrExpired }

// TooLargeError tells that a revision has not been written, and was waited for in vain.
type TooLargeError struct{ Requested, Current int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s: %d, current: %d", ErrTooLarge.Error(), e.Requested, e.Current)
}
func (e *TooLargeError) Is(target error) bool { return target == ErrTooLarge }

// Pager reads for clients of the list/watch API.
type Pager struct{}

// New returns a Pager over e.
func New(e Engine, keys TokenKeys) *Pager { return &Pager{} }

var errUnbuilt = errors.New("not built yet")

// List hands the rows of the keys that begin with prefix to send, in key order and bounded chunks, all at one revision.
// Errors: [ErrInvalid], [ErrExpired], [ErrTooLarge], the engine's, send's.
func (p *Pager) List(ctx context.Context, prefix []byte, o ListOptions, send func(rows []*store.Row) error) (Page, error) {
	return Page{}, errUnbuilt
}

// Get returns the row of key, nil when there is none, and the revision at which that is so. Errors: as List.
func (p *Pager) Get(ctx context.Context, key []byte, o GetOptions) (*store.Row, int64, error) {
	return nil, 0, errUnbuilt
}

// Watch decides how a watch begins. Errors: [ErrInvalid], [ErrExpired].
func (p *Pager) Watch(o WatchOptions) (WatchStart, error) { return WatchStart{}, errUnbuilt }
