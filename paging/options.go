package paging

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
	Limit                int64 // ignored, as Kubernetes does
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
