package semantics

// Start is where the events of a watch begin.
type Start string

// The starts.
const (
	StateThenNow Start = "state, then now" // existing objects as ADDED, then changes
	AfterVersion Start = "after N"         // what changed after N
	FromNow      Start = "now"             // changes from now on
	Nothing      Start = "nothing for now" // N does not exist yet
	Refused      Start = "refused"
)

// Watch is a watch request and how it begins.
type Watch struct {
	Version   Version
	Match     string // resourceVersionMatch
	Initial   string // sendInitialEvents: "", "true" or "false"
	Bookmarks bool
	Continue  bool // with a continue token
	Limit     bool

	Start       Start
	EndBookmark bool   // a bookmark marks the end of the state
	Want        Answer // from sqlstore's API
	Kube        Answer // from a kube-apiserver; code 0 skips the case there
	Cached      Answer // from a kube-apiserver that answers from its watch cache, if different
	KubeStart   Start  // of a kube-apiserver, if different
	// KubeEvent means that a kube-apiserver answers 200 and sends Kube as an ERROR event.
	KubeEvent bool
}

// Watches returns the ways to begin a watch.
func Watches() []Watch {
	const notOlder = "NotOlderThan"
	same := func(w Watch) Watch {
		w.Kube = w.Want
		return w
	}
	began := func(v Version, s Start) Watch { return same(Watch{Version: v, Start: s, Want: ok}) }
	all := []Watch{
		// Without sendInitialEvents: the legacy rules.
		began(Unset, StateThenNow),
		began(Zero, StateThenNow),
		began(Current, AfterVersion),
		began(Old, AfterVersion),
		{Version: Compacted, Start: Refused, Want: expired, Kube: expired, KubeEvent: true, Cached: ok},
		began(Above, Nothing),
		{Version: Garbage, Start: Refused, Want: badRequest, Kube: unreadable},
		{Version: Negative, Start: Refused, Want: badRequest, Kube: unreadable},
		// Watches do not support continue; a kube-apiserver checks it only if it adds sendInitialEvents itself.
		{Version: Unset, Continue: true, Start: Refused, Want: badRequest, Kube: notValid},
		{Version: Zero, Continue: true, Start: Refused, Want: badRequest, Kube: notValid},
		{Version: Current, Continue: true, Start: Refused, Want: badRequest, Kube: ok, KubeStart: AfterVersion},
		// A limit has no effect.
		same(Watch{Version: Old, Limit: true, Start: AfterVersion, Want: ok}),
		same(Watch{Version: Unset, Limit: true, Start: StateThenNow, Want: ok}),
		// A match requires sendInitialEvents.
		{Version: Unset, Match: notOlder, Start: Refused, Want: badRequest, Kube: notValid},
		{Version: Current, Match: notOlder, Start: Refused, Want: badRequest, Kube: notValid},
		{Version: Current, Match: "Exact", Start: Refused, Want: badRequest, Kube: notValid},
		{Version: Current, Match: unknownMatch, Start: Refused, Want: badRequest, Kube: notValid},
	}
	for _, initial := range []string{"true", "false"} {
		all = append(all,
			Watch{Version: Current, Initial: initial, Start: Refused, Want: badRequest, Kube: notValid},
			Watch{Version: Current, Initial: initial, Match: "Exact", Start: Refused, Want: badRequest, Kube: notValid},
			Watch{
				Version: Current, Initial: initial, Match: unknownMatch, Start: Refused, Want: badRequest,
				Kube: notValid,
			},
			Watch{
				Version: Unset, Initial: initial, Match: notOlder, Continue: true, Start: Refused, Want: badRequest,
				Kube: notValid,
			},
			Watch{
				Version: Garbage, Initial: initial, Match: notOlder, Start: Refused, Want: badRequest,
				Kube: unreadable,
			},
		)
	}
	// The state has a version not older than N, whether N is compacted or not.
	for _, v := range []Version{Unset, Zero, Current, Old, Compacted} {
		for _, bookmarks := range []bool{true, false} {
			all = append(all, same(Watch{
				Version: v, Initial: "true", Match: notOlder, Bookmarks: bookmarks,
				Start: StateThenNow, EndBookmark: bookmarks, Want: ok,
			}))
		}
	}
	all = append(all,
		Watch{
			Version: Above, Initial: "true", Match: notOlder, Bookmarks: true, Start: Refused, Want: tooLarge,
			Kube: tooLarge, KubeEvent: true,
		},
		same(Watch{Version: Unset, Initial: "false", Match: notOlder, Bookmarks: true, Start: FromNow, Want: ok}),
		same(Watch{Version: Zero, Initial: "false", Match: notOlder, Bookmarks: true, Start: FromNow, Want: ok}),
		same(Watch{Version: Current, Initial: "false", Match: notOlder, Start: AfterVersion, Want: ok}),
		same(Watch{Version: Old, Initial: "false", Match: notOlder, Bookmarks: true, Start: AfterVersion, Want: ok}),
		Watch{
			Version: Compacted, Initial: "false", Match: notOlder, Start: Refused, Want: expired, Kube: expired,
			KubeEvent: true, Cached: ok,
		},
	)
	for i := range all {
		if all[i].Cached.Code == 0 {
			all[i].Cached = all[i].Kube
		}
	}
	return all
}
