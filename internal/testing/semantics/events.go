package semantics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// Event is an event of a watch.
type Event struct {
	Type     string // ADDED, MODIFIED, DELETED, BOOKMARK or ERROR
	Name     string // of the object
	Revision int64
	Raw      string // the object, as received
	End      bool   // a bookmark that ends the initial events
	Failure  *Failure
}

// Stream is a running watch.
type Stream struct {
	body   io.ReadCloser
	events *json.Decoder
}

// OpenWatch starts a watch at a URL, including its query; the error is a [*Failure] if the server refuses it.
func OpenWatch(ctx context.Context, client *http.Client, url string) (*Stream, error) {
	res, err := open(ctx, client, url)
	if err != nil {
		return nil, err
	}
	return &Stream{res.Body, json.NewDecoder(res.Body)}, nil
}

// Close ends the watch.
func (s *Stream) Close() error { return s.body.Close() }

// Next waits for an event; [io.EOF] means that the server ended the watch cleanly.
func (s *Stream) Next() (Event, error) {
	var e struct {
		Type   string
		Object json.RawMessage
	}
	if err := s.events.Decode(&e); err != nil {
		return Event{}, err
	}
	if e.Type == "ERROR" {
		f := &Failure{Event: true}
		if err := json.Unmarshal(e.Object, &f.Status); err != nil {
			return Event{}, fmt.Errorf("an ERROR without a Status: %w", err)
		}
		f.Code = f.Status.Code
		return Event{Type: e.Type, Failure: f}, nil
	}
	var o object
	if err := json.Unmarshal(e.Object, &o); err != nil {
		return Event{}, err
	}
	revision, err := strconv.ParseInt(o.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return Event{}, fmt.Errorf("resourceVersion of %s %s: %w", e.Type, e.Object, err)
	}
	end := o.Metadata.Annotations["k8s.io/initial-events-end"] == "true"
	return Event{Type: e.Type, Name: o.Metadata.Name, Revision: revision, Raw: string(e.Object), End: end}, nil
}

// until reads up to and including the event for which stop returns true, and returns all events.
func (s *Stream) until(stop func(Event) bool) ([]Event, error) {
	var all []Event
	for {
		e, err := s.Next()
		if err != nil {
			return all, err
		}
		all = append(all, e)
		if e.Failure != nil {
			return all, e.Failure
		}
		if stop(e) {
			return all, nil
		}
	}
}

// asFailure returns the Status in an error, nil if there is none.
func asFailure(err error) *Failure {
	f, _ := errors.AsType[*Failure](err)
	return f
}
