package console

import (
	"net/http"
	"slices"
	"time"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/recent"
	"github.com/sqlstore/sqlstore/status"
)

// overviewData is what the overview shows: the report of /status, and what the recorded samples add to it.
type overviewData struct {
	*status.Report
	Charts    []chart
	Revisions string // per second
	Cache     string // part of the values that reads found in memory
	Forecast  string // when the quota is reached, "" if it is not in sight
}

// overview shows how the server is.
func (c *Console) overview(r *http.Request) (view, error) {
	o := overviewData{Report: &status.Report{}}
	if err := c.api.get(r, "/status", nil, o.Report); err != nil {
		return view{}, err
	}
	hour := c.recent.Hour()
	o.Charts = charts(hour)
	if latest, ok := hour.Latest(); ok {
		if revisions, ok := latest.Value(recent.Revisions); ok {
			o.Revisions = format(revisions, perSecond)
		}
		if hits, ok := latest.Value(recent.CacheHits); ok {
			o.Cache = digits(100*hits) + " %"
		}
	}
	if o.Size != nil && o.Size.Quota > 0 {
		series := recent.Total
		if o.shared() {
			series = recent.InUse
		}
		if d, ok := hour.Until(float64(o.Size.Quota), series); ok && d < farthest {
			o.Forecast = about(d)
		}
	}
	return view{page: "overview", title: "Overview", data: &o, authEnabled: o.AuthEnabled}, nil
}

// farthest is how far ahead a forecast from an hour says anything.
const farthest = 365 * 24 * time.Hour

// shared reports whether the database is one that replicas share.
func (o *overviewData) shared() bool { return len(o.Replicas) > 0 }

// Counted returns the bytes that count against the quota: a shared database uses free space again rather than give it
// back.
func (o *overviewData) Counted() int64 {
	if o.shared() {
		return o.Size.InUse
	}
	return o.Size.Total
}

// Backlog returns how many compacted revisions have superseded rows that are not deleted yet, -1 if this server does
// not know.
func (o *overviewData) Backlog() int64 {
	if o.Compaction == nil || o.Compaction.Purged < 0 {
		return -1
	}
	return max(0, o.Compaction.Compacted-o.Compaction.Purged)
}

// NameOf returns the name of a replica, or the id of one that is gone.
func (o *overviewData) NameOf(id string) string {
	i := slices.IndexFunc(o.Replicas, func(r status.Replica) bool { return r.ID == id })
	if i < 0 {
		return id
	}
	return o.Replicas[i].Name
}

// runbook returns the section of docs/runbook.md about a condition that is not as it should be.
func runbook(c status.Condition) string {
	switch {
	case c.Type == status.Accepted, c.Type == status.ResolvedRefs:
		return "SqlstoreConfigurationRefused"
	case c.Type == status.Ready && slices.Contains(status.Negative, c.Reason):
		return "Sqlstore" + c.Reason // its cause
	case c.Type == status.Ready, c.Type == status.Programmed:
		return "SqlstoreNotReady"
	}
	return "Sqlstore" + c.Type
}
