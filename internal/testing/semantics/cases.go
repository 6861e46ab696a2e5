package semantics

import "net/http"

// Outcome is the rule for the answer to a list, as named in package paging's table.
type Outcome string

// The outcomes.
const (
	MostRecent    Outcome = "MostRecent"    // at the latest version
	Any           Outcome = "Any"           // at any available version
	NotOlderThan  Outcome = "NotOlderThan"  // at the requested version or a later one
	Exact         Outcome = "Exact"         // at the requested version
	ContinueToken Outcome = "ContinueToken" // after the token's key, at the token's version
	Invalid       Outcome = "Invalid"       // refused
)

// Paging is how a list is paged.
type Paging string

// The kinds of paging.
const (
	Whole         Paging = "whole"
	Limited       Paging = "limit"
	ContinuedPage Paging = "limit+continue"
	ContinuedRest Paging = "continue" // without a limit: everything left
)

// Continued reports whether there is a continue token.
func (p Paging) Continued() bool { return p == ContinuedPage || p == ContinuedRest }

// Limits reports whether there is a limit.
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
	Garbage   Version = "garbage"   // not a number
	Negative  Version = "negative"
)

var allVersions = []Version{Unset, Zero, Current, Old, Compacted, Above, Garbage, Negative}

// Answer is the expected answer to a request.
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
	// a kube-apiserver's, for incompatible options
	notValid = Answer{http.StatusUnprocessableEntity, "Invalid"}
	// a kube-apiserver's, for some versions that are not numbers
	unreadable = Answer{Code: http.StatusInternalServerError}
)

// Case is a list request and its expected answer.
type Case struct {
	Match   string // resourceVersionMatch; "" is unset
	Paging  Paging
	Version Version
	Outcome Outcome
	Want    Answer // from sqlstore's API
	Kube    Answer // from a kube-apiserver
}

// rule is a line of KEP-2523's table: the outcome by kind of resourceVersion.
type rule struct {
	match       string
	paging      Paging
	unset, zero Outcome
	positive    Outcome
}

// unknownMatch is an invalid resourceVersionMatch.
const unknownMatch = "Sometimes"

// rules is the table, to compare with the KEP.
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

// answer derives the answer from the outcome and the version.
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

// kube is the same, except that a kube-apiserver answers 422 if its validation refuses the options; the KEP says 400.
func (c Case) kube() Answer {
	if c.Outcome == Invalid && c.Match != "" {
		forbidden := c.Version == Unset || c.Paging.Continued() || c.Match == unknownMatch || c.Match == "Exact" &&
			c.Version == Zero
		if forbidden {
			return notValid
		}
	}
	return c.Want
}

// Get is a get request and its expected answer.
type Get struct {
	Version Version
	Missing bool   // there is no such object
	Want    Answer // from sqlstore's API
	Kube    Answer // from a kube-apiserver
	Cached  Answer // from a kube-apiserver that answers from its watch cache
}

// Gets returns every get: a version, if set, is a minimum.
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
