package semantics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"testing"
)

// Server is the server under test, and hooks that change it.
type Server struct {
	Client *http.Client
	// List is the URL of a collection, without a query. Nothing else may write to it during the test.
	List string
	// Object returns the URL of an object; nil is List + name.
	Object func(name string) string
	// Kube says that a kube-apiserver answers, and how it is configured; nil is sqlstore's own API.
	Kube *Kube

	// Put creates the object, or changes it if it exists: no two calls write the same contents.
	Put func(ctx context.Context, name string) error
	// Delete deletes an existing object.
	Delete func(ctx context.Context, name string) error
	// Compact compacts everything below a revision, and returns when every server knows of it.
	Compact func(ctx context.Context, revision int64) error
}

// Kube is the configuration of a kube-apiserver.
type Kube struct {
	// WatchCache means that it answers from its watch cache, which keeps its own snapshots beyond a compaction, and
	// ignores limits with resourceVersion 0.
	WatchCache bool
}

// wants chooses the expected answer: sqlstore's own, a kube-apiserver's, or one's with a watch cache.
func (s *Server) wants(own, kube, cached Answer) Answer {
	switch {
	case s.Kube == nil:
		return own
	case s.Kube.WatchCache:
		return cached
	default:
		return kube
	}
}

// Item is an object of an answer.
type Item struct {
	Name     string
	Revision int64  // its resourceVersion
	Raw      string // the object, as received
}

// Page is the answer to a list.
type Page struct {
	Revision  int64
	Continue  string
	Remaining *int64
	Items     []Item
}

// Failure is a Status with a code other than 200.
type Failure struct {
	Code       int  // of HTTP
	Event      bool // from an ERROR event, which has no headers
	Continue   string
	RetryAfter string // the header
	Status     struct {
		Kind, APIVersion, Status, Message, Reason string
		Code                                      int
		Metadata                                  struct{ Continue string }
		Details                                   struct {
			RetryAfterSeconds int
			Causes            []struct{ Reason, Message string }
		}
	}
}

func (f *Failure) Error() string {
	return fmt.Sprintf("%d %s: %s", f.Code, f.Status.Reason, f.Status.Message)
}

// object is what the items of both APIs have in common.
type object struct {
	Metadata struct {
		Name            string
		ResourceVersion string
		Annotations     map[string]string
	}
}

func parseItem(raw json.RawMessage) (Item, error) {
	var o object
	if err := json.Unmarshal(raw, &o); err != nil {
		return Item{}, err
	}
	revision, err := strconv.ParseInt(o.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return Item{}, fmt.Errorf("resourceVersion of item %q: %w", o.Metadata.Name, err)
	}
	return Item{o.Metadata.Name, revision, string(raw)}, nil
}

// get sends a GET and returns the body of a 200; other codes are a [*Failure].
func get(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	res, err := open(ctx, client, url)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return io.ReadAll(res.Body)
}

// open is get without reading the body.
func open(ctx context.Context, client *http.Client, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	res, err := client.Do(req)
	if err != nil || res.StatusCode == http.StatusOK {
		return res, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	f := &Failure{Code: res.StatusCode, RetryAfter: res.Header.Get("Retry-After")}
	if err := json.Unmarshal(body, &f.Status); err != nil {
		return nil, fmt.Errorf("code %d without a Status: %w: %.200s", res.StatusCode, err, body)
	}
	f.Continue = f.Status.Metadata.Continue
	return nil, f
}

// GetList requests a list; the error is a [*Failure] if the server refuses it.
func GetList(ctx context.Context, client *http.Client, list string, query url.Values) (*Page, error) {
	body, err := get(ctx, client, list+"?"+query.Encode())
	if err != nil {
		return nil, err
	}
	var l struct {
		Metadata struct {
			ResourceVersion, Continue string
			RemainingItemCount        *int64
		}
		Items []json.RawMessage
	}
	if err := json.Unmarshal(body, &l); err != nil {
		return nil, fmt.Errorf("list: %w: %.200s", err, body)
	}
	p := &Page{Continue: l.Metadata.Continue, Remaining: l.Metadata.RemainingItemCount}
	if p.Revision, err = strconv.ParseInt(l.Metadata.ResourceVersion, 10, 64); err != nil {
		return nil, fmt.Errorf("resourceVersion of the list: %w", err)
	}
	if l.Items == nil {
		return nil, errors.New("the list has no field items")
	}
	for _, raw := range l.Items {
		item, err := parseItem(raw)
		if err != nil {
			return nil, err
		}
		p.Items = append(p.Items, item)
	}
	return p, nil
}

// check compares an error, or nil, with the expected answer.
func (a Answer) check(t *testing.T, kube *Kube, err error) {
	t.Helper()
	if a.Code == http.StatusOK {
		if err != nil {
			t.Errorf("answered %v, want 200", err)
		}
		return
	}
	f, isFailure := errors.AsType[*Failure](err)
	if !isFailure {
		t.Errorf("answered %v, want %d %s", err, a.Code, a.Reason)
		return
	}
	s := &f.Status
	if f.Code != a.Code || s.Reason != a.Reason || s.Code != a.Code {
		t.Errorf("answered %v (code %d in the Status), want %d %s", err, s.Code, a.Code, a.Reason)
	}
	if s.Kind != "Status" || s.APIVersion != "v1" || s.Status != "Failure" || s.Message == "" {
		t.Errorf("no Status of Kubernetes: %+v", *s)
	}
	if a == tooLarge {
		checkTooLarge(t, kube, f)
	}
}

// checkTooLarge checks the details by which Kubernetes clients detect that they are ahead of a server.
func checkTooLarge(t *testing.T, kube *Kube, f *Failure) {
	t.Helper()
	d := f.Status.Details
	if len(d.Causes) != 1 || d.Causes[0].Reason != "ResourceVersionTooLarge" ||
		d.Causes[0].Message != "Too large resource version" {
		t.Errorf("causes %+v, want ResourceVersionTooLarge", d.Causes)
	}
	// A kube-apiserver without a watch cache does not ask for a retry.
	if (kube == nil || kube.WatchCache) && (d.RetryAfterSeconds != 1 || f.RetryAfter != "1" && !f.Event) {
		t.Errorf("retryAfterSeconds %d, Retry-After %q, want 1", d.RetryAfterSeconds, f.RetryAfter)
	}
}
