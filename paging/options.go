package paging

// ListOptions are the query parameters of a list.
type ListOptions struct {
	ResourceVersion      string // "", "0" or a revision
	ResourceVersionMatch string // "", "Exact" or "NotOlderThan"
	Limit                int64  // maximum rows; 0 means no limit
	Continue             string // the token of the previous page
}

// Page is the result of a list without its rows, in Kubernetes' terms its ListMeta.
type Page struct {
	Revision  int64  // of all rows
	Continue  string // the token for the next page, "" after the last one
	Remaining int64  // rows after this page; 0 after the last one
}

// GetOptions are the query parameters of a get. They mean what they mean for a list without limit and continue.
type GetOptions struct {
	ResourceVersion      string // "", "0" or a revision
	ResourceVersionMatch string // "", "Exact" or "NotOlderThan"
}

// WatchOptions are the query parameters of a watch.
type WatchOptions struct {
	ResourceVersion      string
	ResourceVersionMatch string
	SendInitialEvents    *bool // nil if not set
	AllowWatchBookmarks  bool
	Limit                int64 // ignored, as in Kubernetes
	Continue             string
}

// WatchStart is where a watch begins.
type WatchStart struct {
	// State means that the existing objects are sent first, as a list with the options in List returns them. The watch
	// then continues after that list's revision.
	State bool
	List  ListOptions
	// After is the revision after which the watch begins if State is false; 0 means at the next write.
	After int64
	// EndBookmark means that a bookmark marks the end of the state.
	EndBookmark bool
}
