package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"strconv"
	"time"
)

// The list/watch API over HTTP/JSON, which sqlstore offers in addition to etcd's.

const objectsFlag = "--listen-objects-urls"

// findObjects asks the binary whether it has that API, because another build may be older.
func (s *server) findObjects() {
	if s.program != nil || s.canned {
		return
	}
	out, _ := exec.Command(s.bin, "serve", "--help").CombinedOutput() // a binary that does not run fails at its start
	s.hasObjects = bytes.Contains(out, []byte(objectsFlag[2:]))
}

// httpWalk reads the objects page by page, with continue tokens, from the replicas in turn.
type httpWalk struct {
	t        *target
	at       int // the number of the next object
	token    string
	revision string
	body     bytes.Buffer
}

func (t *target) newHTTPWalk() *httpWalk { return &httpWalk{t: t} }

// objectPage is what is checked of a page.
type objectPage struct {
	Metadata struct {
		ResourceVersion, Continue string
		RemainingItemCount        int
	}
	Items []struct {
		Metadata    struct{ Key, ResourceVersion string }
		ValueBase64 []byte
		Value       json.RawMessage
	}
}

// next reads a page, and checks it after timing it.
func (w *httpWalk) next(ctx context.Context, page int) (time.Duration, error) {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	if w.token != "" {
		query.Set("continue", w.token)
	}
	target := w.t.objectURLs[page%len(w.t.objectURLs)] + "/v1/objects/" + objectsDir + "?" + query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	res, err := w.t.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	w.body.Reset()
	if _, err := io.Copy(&w.body, res.Body); err != nil {
		return 0, err
	}
	took := time.Since(start)
	if res.StatusCode != http.StatusOK {
		return 0, w.t.wrong("page over HTTP: %s: %.300s", res.Status, w.body.Bytes())
	}
	return took, w.check()
}

func (w *httpWalk) check() error {
	var p objectPage
	if err := json.Unmarshal(w.body.Bytes(), &p); err != nil {
		return fmt.Errorf("page over HTTP: %w", err)
	}
	left := len(w.t.objects) - w.at
	if n := min(left, pageSize); len(p.Items) != n || p.Metadata.RemainingItemCount != left-n ||
		(p.Metadata.Continue != "") != (left > n) {
		return w.t.wrong("page over HTTP at object %d: %d objects, %d left, continue %q", w.at, len(p.Items),
			p.Metadata.RemainingItemCount, p.Metadata.Continue)
	}
	if w.revision == "" {
		w.revision = p.Metadata.ResourceVersion
	}
	if p.Metadata.ResourceVersion != w.revision {
		return w.t.wrong("page over HTTP at %s, the first one at %s", p.Metadata.ResourceVersion, w.revision)
	}
	check := w.t.expect(&w.at, nil)
	for i, item := range p.Items {
		mod, err := strconv.ParseInt(item.Metadata.ResourceVersion, 10, 64)
		if err != nil {
			return fmt.Errorf("page over HTTP: %w", err)
		}
		value := item.ValueBase64
		if item.Value != nil { // random bytes that happen to be JSON
			value = item.Value
		}
		if err := check(i, &kv{key: []byte(item.Metadata.Key), value: value, mod: mod}); err != nil {
			return err
		}
	}
	w.at += len(p.Items)
	w.token = p.Metadata.Continue
	return nil
}
