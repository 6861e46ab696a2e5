package console

import "net/http"

// alarm is a raised alarm.
type alarm struct {
	Member string `json:"member"` // its id in hexadecimal
	Type   string `json:"type"`
}

// Stops reports whether the server refuses writes because of the alarm.
func (a alarm) Stops() bool { return a.Type == "NOSPACE" || a.Type == "CORRUPT" }

// Advice says what to do.
func (a alarm) Advice() string {
	switch a.Type {
	case "NOSPACE":
		return "The database has reached its quota: puts fail. Follow the section SqlstoreNoSpace of the runbook, " +
			"docs/runbook.md."
	case "CORRUPT":
		return "What the database returned is not what was written: all writes fail. Follow the section " +
			"SqlstoreCorrupt of the runbook, docs/runbook.md."
	}
	return "A client has raised it, and it stops nothing. 'etcdctl alarm disarm' clears it, and every other alarm."
}

// alarms shows the alarms that are raised.
func (c *Console) alarms(r *http.Request) (view, error) {
	var l chunkOf[alarm]
	if err := c.api.get(r, "/v1/alarms", nil, &l); err != nil {
		return view{}, err
	}
	return view{page: "alarms", title: "Alarms", data: l.Items}, nil
}
