// Package gateway compares the JSON gateway (POST /v3/...) of the target with etcd's.
package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// Bytes are base64 in JSON: a = YQ==, b = Yg==, v = dg==.
var requests = []struct{ path, body string }{
	{"/v3/kv/put", `{"key": "YQ==", "value": "dg=="}`},
	{"/v3/kv/put", `{"key": "YQ==", "value": "dg==", "prev_kv": true}`},
	{"/v3/kv/put", `{"key": "Yg==", "value": "dg=="}`},
	{"/v3/kv/put", `{"key": ""}`},
	{"/v3/kv/range", `{"key": "YQ=="}`},
	{"/v3/kv/range", `{"key": "YQ==", "range_end": "Yw==", "limit": 1, "sort_order": "DESCEND", "sort_target": "MOD"}`},
	{"/v3/kv/range", `{"key": "YQ==", "range_end": "Yw==", "limit": "1", "keysOnly": true}`},
	{"/v3/kv/range", `{"key": "AA==", "range_end": "AA==", "count_only": true}`},
	{"/v3/kv/range", `{"key": "YQ==", "revision": "2"}`},
	{"/v3/kv/range", `{"key": "YQ==", "revision": "1000"}`},
	{"/v3/kv/range", `{}`},
	{"/v3/kv/range", `{"key": 1}`},
	{"/v3/kv/range", `{"unknown": "YQ=="}`},
	{"/v3/kv/range", `not JSON`},
	{"/v3/kv/txn", `{"compare": [{"key": "YQ==", "target": "VALUE", "result": "EQUAL", "value": "dg=="}],
		"success": [{"request_put": {"key": "Yw==", "value": "dg=="}}, {"request_range": {"key": "Yw=="}}],
		"failure": [{"request_range": {"key": "YQ=="}}]}`},
	{"/v3/kv/txn", `{"compare": [{"key": "YQ==", "target": "CREATE", "createRevision": "0"}],
		"success": [{"requestPut": {"key": "Yw=="}}],
		"failure": [{"requestDeleteRange": {"key": "Yw==", "prevKv": true}},
		{"request_txn": {"success": [{"request_range": {"key": "Yw=="}}]}}]}`},
	{"/v3/kv/txn", `{"success": [{}]}`},
	{"/v3/kv/deleterange", `{"key": "Yg==", "prev_kv": true}`},
	{"/v3/kv/compaction", `{"revision": "3", "physical": true}`},
	{"/v3/kv/compaction", `{"revision": "3"}`},
	{"/v3/lease/grant", `{"ID": "77", "TTL": "600"}`},
	{"/v3/lease/grant", `{"ID": "77", "TTL": "600"}`},
	{"/v3/kv/put", `{"key": "bA==", "lease": "77"}`},
	{"/v3/lease/timetolive", `{"ID": "77", "keys": true}`},
	{"/v3/kv/lease/timetolive", `{"ID": "78"}`},
	{"/v3/lease/leases", `{}`},
	{"/v3/lease/keepalive", `{"ID": "77"}`},
	{"/v3/lease/keepalive", `{"ID": "78"}`},
	{"/v3/lease/revoke", `{"ID": "77"}`},
	{"/v3/kv/lease/revoke", `{"ID": "77"}`},
	{"/v3/maintenance/alarm", `{"action": "GET"}`},
	{"/v3/maintenance/defragment", `{}`},
	{"/v3/auth/status", `{}`},
	{"/v3/auth/authenticate", `{"name": "root", "password": "x"}`},
	{"/v3/no/such/thing", `{}`},
	{"/v3/lock/lock", `{"name": "bA==", "lease": "99"}`},
	{"/v3/lock/unlock", `{}`},
	{"/v3/election/campaign", `{"name": "bA==", "lease": "99"}`},
	{"/v3/election/proclaim", `{}`},
	{"/v3/election/proclaim", `{"leader": {}}`},
	{"/v3/election/resign", `{"leader": {}}`},
	{"/v3/election/leader", `{"name": "bA=="}`},
	// An alarm keeps the member that the request names.
	{"/v3/maintenance/alarm", `{"action": "ACTIVATE", "alarm": "NOSPACE"}`},
	{"/v3/kv/put", `{"key": "YQ=="}`},
	{"/v3/maintenance/alarm", `{"action": "GET"}`},
	{"/v3/maintenance/alarm", `{"action": "DEACTIVATE", "memberID": "55", "alarm": "NOSPACE"}`},
	{"/v3/maintenance/alarm", `{"action": "DEACTIVATE", "alarm": "NOSPACE"}`},
	{"/v3/lease/grant", `{"ID": "7", "TTL": "600"}`},
	{"/v3/maintenance/alarm", `{"action": "ACTIVATE", "memberID": "55", "alarm": "CORRUPT"}`},
	{"/v3/kv/put", `{"key": "YQ=="}`},
	{"/v3/kv/put", `{}`},
	{"/v3/kv/deleterange", `{"key": "YQ=="}`},
	{"/v3/kv/txn", `{}`},
	{"/v3/kv/txn", `{"success": [{"request_put": {"key": "YQ=="}}]}`},
	{"/v3/kv/txn", `{"success": [{"request_range": {"key": "YQ=="}}]}`},
	{"/v3/kv/txn", `{"success": [{"request_txn": {"success": [{"request_range": {"key": "YQ=="}}]}}]}`},
	{"/v3/kv/range", `{"key": "YQ=="}`},
	{"/v3/kv/compaction", `{"revision": "4"}`},
	{"/v3/lease/grant", `{"TTL": "9"}`},
	{"/v3/lease/revoke", `{"ID": "7"}`},
	{"/v3/lease/keepalive", `{"ID": "7"}`},
	{"/v3/lock/lock", `{"name": "bA==", "lease": "7"}`},
	{"/v3/maintenance/alarm", `{"action": "DEACTIVATE", "memberID": "55", "alarm": "CORRUPT"}`},
	{"/v3/kv/put", `{"key": "YQ=="}`},
}

func TestSameAnswers(t *testing.T) {
	etcd, target := servers.Etcd(t, "--unsafe-no-fsync"), servers.Target(t, "--unsafe-no-fsync")
	for _, r := range requests {
		want, got := post(t, etcd.ClientURL()+r.path, r.body), post(t, target.ClientURL()+r.path, r.body)
		if !reflect.DeepEqual(want, got) {
			t.Errorf("%s %s\netcd:   %v\ntarget: %v", r.path, r.body, want, got)
		}
	}
}

// answer is a response with its JSON documents, one for a plain answer, any number for a stream.
type answer struct {
	status      int
	contentType string
	documents   []any
}

func post(t *testing.T, url, body string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	resp := send(t, ctx, url, strings.NewReader(body))
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, contentType: resp.Header.Get("Content-Type")}
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	for d := json.NewDecoder(bytes.NewReader(raw)); ; {
		var document any
		if err := d.Decode(&document); err != nil {
			if err != io.EOF {
				a.documents = append(a.documents, strings.TrimSpace(string(raw)))
			}
			return a
		}
		a.documents = append(a.documents, normal(document))
	}
}

func send(t *testing.T, ctx context.Context, url string, body io.Reader) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return resp
}

// normal blanks the values that differ between any two servers.
func normal(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, sub := range v {
			switch name {
			case "cluster_id", "member_id", "raft_term":
				v[name] = "ID"
			case "TTL":
				if s := fmt.Sprint(sub); strings.HasPrefix(s, "59") {
					v[name] = "600" // a little later
				}
			default:
				v[name] = normal(sub)
			}
		}
	case []any:
		for i := range v {
			v[i] = normal(v[i])
		}
	case string:
		// Protobuf's errors have an ordinary or a non-breaking space, depending on the hash of the binary.
		return strings.ReplaceAll(v, "\u00a0", " ")
	}
	return v
}

// A watch streams one JSON document after another until its client disconnects.
func TestWatchStreams(t *testing.T) {
	etcd, target := servers.Etcd(t, "--unsafe-no-fsync"), servers.Target(t, "--unsafe-no-fsync")
	want, got := watched(t, etcd.ClientURL()), watched(t, target.ClientURL())
	if !reflect.DeepEqual(want, got) {
		t.Errorf("etcd:   %v\ntarget: %v", want, got)
	}
}

// watched returns what a watch of the key a receives as the key is written, and what a watch of its history receives.
func watched(t *testing.T, url string) []any {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	now := open(t, ctx, url+"/v3/watch", `{"create_request": {"key": "YQ=="}}`)
	documents := now.read(t, 1)
	post(t, url+"/v3/kv/put", `{"key": "YQ==", "value": "dg=="}`)
	documents = append(documents, now.read(t, 1)...)
	post(t, url+"/v3/kv/deleterange", `{"key": "YQ=="}`)
	documents = append(documents, now.read(t, 1)...)

	past := open(t, ctx, url+"/v3/watch",
		`{"create_request": {"key": "YQ==", "start_revision": "2", "prev_kv": true, "watch_id": "5"}}`)
	return append(documents, past.read(t, 2)...)
}

// stream is an open-ended response with one document per line.
type stream struct{ lines *bufio.Reader }

func open(t *testing.T, ctx context.Context, url, body string) stream {
	t.Helper()
	resp := send(t, ctx, url, strings.NewReader(body))
	t.Cleanup(func() { _ = resp.Body.Close() })
	return stream{bufio.NewReader(resp.Body)}
}

func (s stream) read(t *testing.T, n int) []any {
	t.Helper()
	documents := make([]any, n)
	for i := range documents {
		line, err := s.lines.ReadBytes('\n')
		if err != nil {
			t.Fatalf("document %d of %d: %v", i, n, err)
		}
		if err := json.Unmarshal(line, &documents[i]); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		normal(documents[i])
	}
	return documents
}
