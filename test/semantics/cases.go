package semantics

import "net/http"

// Outcome is the rule by which a list is answered; the words are those of paging's table.
type Outcome string

// The outcomes.
const (
	MostRecent    Outcome = "MostRecent"    // at the latest version
	Any           Outcome = "Any"           // at whatever version is at hand
	NotOlderThan  Outcome = "NotOlderThan"  // at the version asked for or a later one
	Exact         Outcome = "Exact"         // at the version asked for
	ContinueToken Outcome = "ContinueToken" // behind the token's key, at the token's version
	Invalid       Outcome = "Invalid"       // refused
)

// Paging is how a list is cut.
type Paging string

// The kinds of paging.
const (
	Whole         Paging = "whole"
	Limited       Paging = "limit"
	ContinuedPage Paging = "limit+continue"
	ContinuedRest Paging = "continue" // without a limit: all that is left
)

// Continued says whether there is a continue token.
func (p Paging) Continued() bool { return p == ContinuedPage || p == ContinuedRest }

// Limits says whether there is a limit.
func (p Paging) Limits() bool { return p == Limited || p == ContinuedPage }

// Version is a kind of resourceVersion.
type Version string

// The kinds of versions.
const (
	Unset     Version = "unset"
	Zero      Version = "0"
	Current   Version = "current"
	Old       Version = "old"       // older than current, and kept
	Compacted Version = "compacted" // below the compacted revision
	Above     Version = "above"     // not written yet
	Garbage   Version = "garbage"   // no number
	Negative  Version = "negative"
)

var allVersions = []Version{Unset, Zero, Current, Old, Compacted, Above, Garbage, Negative}

// Answer is what a request is answered.
type Answer struct {
	Code   int
	Reason string // of the Status; "" with 200
}

// The answers.
var (
	ok         = Answer{Code: http.StatusOK}
	badRequest = Answer{http.StatusBadRequest, "BadRequest"}
	expired    = Answer{http.StatusGone, "Expired"}
	tooLarge   = Answer{http.StatusGatewayTimeout, "Timeout"}
	notValid   = Answer{http.StatusUnprocessableEntity, "Invalid"} // a kube-apiserver's, for options that do not go together
	unreadable = Answer{Code: http.StatusInternalServerError}      // a kube-apiserver's, for some versions that are no numbers
)

// Case is a list request and what it is answered.
type Case struct {
	Match   string // resourceVersionMatch; "" is unset
	Paging  Paging
	Version Version
	Outcome Outcome
	Want    Answer // of sqlstore's API
	Kube    Answer // of a kube-apiserver
}

// rule is a line of KEP-2523's table: the outcome by kind of resourceVersion.
type rule struct {
	match       string
	paging      Paging
	unset, zero Outcome
	positive    Outcome
}

// unknownMatch is a resourceVersionMatch that nobody knows.
const unknownMatch = "Sometimes"

// rules is the table, to be held against the KEP.
var rules = []rule{
	// match, paging, resourceVersion unset, "0", N
	{match: "", paging: Whole, unset: MostRecent, zero: Any, positive: NotOlderThan},
	{match: "", paging: Limited, unset: MostRecent, zero: Any, positive: Exact},
	{match: "", paging: ContinuedPage, unset: ContinueToken, zero: ContinueToken, positive: Invalid},
	{match: "", paging: ContinuedRest, unset: ContinueToken, zero: ContinueToken, positive: Invalid},
	{match: "Exact", paging: Whole, unset: Invalid, zero: Invalid, positive: Exact},
	{match: "Exact", paging: Limited, unset: Invalid, zero: Invalid, positive: Exact},
	{match: "Exact", paging: ContinuedPage, unset: Invalid, zero: Invalid, positive: Invalid},
	{match: "Exact", paging: ContinuedRest, unset: Invalid, zero: Invalid, positive: Invalid},
	{match: "NotOlderThan", paging: Whole, unset: Invalid, zero: Any, positive: NotOlderThan},
	{match: "NotOlderThan", paging: Limited, unset: Invalid, zero: Any, positive: NotOlderThan},
	{match: "NotOlderThan", paging: ContinuedPage, unset: Invalid, zero: Invalid, positive: Invalid},
	{match: "NotOlderThan", paging: ContinuedRest, unset: Invalid, zero: Invalid, positive: Invalid},
	{match: unknownMatch, paging: Whole, unset: Invalid, zero: Invalid, positive: Invalid},
	{match: unknownMatch, paging: Limited, unset: Invalid, zero: Invalid, positive: Invalid},
	{match: unknownMatch, paging: ContinuedPage, unset: Invalid, zero: Invalid, positive: Invalid},
	{match: unknownMatch, paging: ContinuedRest, unset: Invalid, zero: Invalid, positive: Invalid},
}

// Lists returns every case: each match with each paging and each kind of version.
func Lists() []Case {
	var all []Case
	for _, r := range rules {
		for _, v := range allVersions {
			c := Case{Match: r.match, Paging: r.paging, Version: v}
			c.Outcome = r.outcome(v)
			c.Want = c.answer()
			c.Kube = c.kube()
			all = append(all, c)
		}
	}
	return all
}

func (r rule) outcome(v Version) Outcome {
	switch v {
	case Unset:
		return r.unset
	case Zero:
		return r.zero
	case Garbage, Negative:
		return Invalid
	default:
		return r.positive
	}
}

// answer follows from the outcome and the version.
func (c Case) answer() Answer {
	switch {
	case c.Outcome == Invalid:
		return badRequest
	case c.Version == Above:
		return tooLarge
	case c.Version == Compacted && c.Outcome == Exact:
		return expired
	default:
		return ok
	}
}

// kube is the same, but that a kube-apiserver answers 422 where its validation of the options refuses them, which the KEP calls 400.
func (c Case) kube() Answer {
	if c.Outcome == Invalid && c.Match != "" {
		forbidden := c.Version == Unset || c.Paging.Continued() || c.Match == unknownMatch || c.Match == "Exact" && c.Version == Zero
		if forbidden {
			return notValid
		}
	}
	return c.Want
}

// Get is a get request and what it is answered.
type Get struct {
	Version Version
	Missing bool   // there is no such object
	Want    Answer // of sqlstore's API
	Kube    Answer // of a kube-apiserver
	Cached  Answer // of a kube-apiserver that answers from its watch cache
}

// Gets returns every get: a version, if there is one, is the least that will do.
func Gets() []Get {
	notFound := Answer{http.StatusNotFound, "NotFound"}
	all := []Get{
		{Version: Unset, Want: ok},
		{Version: Zero, Want: ok},
		{Version: Current, Want: ok},
		{Version: Old, Want: ok},
		{Version: Compacted, Want: ok},
		{Version: Above, Want: tooLarge},
		{Version: Garbage, Want: badRequest},
		{Version: Negative, Want: badRequest},
		{Version: Unset, Missing: true, Want: notFound},
		{Version: Zero, Missing: true, Want: notFound},
		{Version: Current, Missing: true, Want: notFound},
		{Version: Compacted, Missing: true, Want: notFound},
		{Version: Above, Missing: true, Want: tooLarge},
		{Version: Garbage, Missing: true, Want: badRequest},
	}
	for i := range all {
		all[i].Kube, all[i].Cached = all[i].Want, all[i].Want
		if all[i].Want == badRequest {
			all[i].Cached = unreadable
		}
	}
	return all
}
