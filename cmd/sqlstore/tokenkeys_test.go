package main_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/backend/postgres"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
)

// tokenKeys runs a token-keys command and checks that its output contains part.
func tokenKeys(t *testing.T, part string, args ...string) string {
	t.Helper()
	out, err := sqlstore(t, append([]string{"token-keys"}, args...)...)
	if (err != nil) != strings.Contains("\n"+out, "\nsqlstore:") || !strings.Contains(out, part) {
		t.Errorf("token-keys %v: %q, %v; want %q", args, out, err, part)
	}
	return out
}

func TestTokenKeys(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	tokenKeys(t, "no such file", "list", "--data-dir", dir)
	s := launch.Start(t, launch.Config{DataDir: dir})
	tokenKeys(t, "in use by another process; stop that one", "rotate", "--data-dir", dir)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	tokenKeys(t, "no key yet", "list", "--data-dir", dir)
	tokenKeys(t, "key 1 seals from now on", "rotate", "--data-dir", dir)
	tokenKeys(t, "key 2 seals from now on, older keys open", "rotate", "--data-dir", dir)
	out := tokenKeys(t, "seals and opens", "list", "--data-dir", dir)
	if lines := strings.Split(strings.TrimSpace(out), "\n"); len(lines) != 3 || !strings.HasPrefix(lines[1], "1 ") ||
		!strings.HasPrefix(lines[2], "2 ") {
		t.Errorf("listed %q", out)
	}
	tokenKeys(t, "key 3 seals from now on, older keys are dropped", "rotate", "--revoke", "--data-dir", dir)
	if out := tokenKeys(t, "3 ", "list", "--data-dir", dir); strings.Contains(out, "\n1 ") ||
		strings.Contains(out, "\n2 ") {
		t.Errorf("listed %q after the others were dropped", out)
	}
	tokenKeys(t, "argument without its flag", "list", "postgres://user:word@host/database")
	s.Restart(t)
}

// TestTokenKeysOnPostgres rotates the keys while two replicas serve. A list that began before continues after the
// rotation, on the replica that did not do it. No output contains a secret.
func TestTokenKeysOnPostgres(t *testing.T) {
	dsn := pgserver.Database(t)
	tokenKeys(t, "contains no sqlstore data", "rotate", "--datastore", dsn)
	var replicas []*launch.Server
	var addresses []string
	for range 2 {
		objects := filepath.Join(t.TempDir(), "objects.sock")
		addresses = append(addresses, objects)
		replicas = append(replicas, launch.Start(t, launch.Config{Args: []string{
			"--datastore", dsn,
			"--listen-objects-urls", "unix://" + objects,
		}}))
	}
	client := connect(t, replicas[0].Endpoint())
	for _, key := range []string{"/p/a", "/p/b", "/p/c"} {
		if _, err := client.Put(t.Context(), key, "v"); err != nil {
			t.Fatal(err)
		}
	}
	token, _ := pageOf(t, addresses[0], "")
	tokenKeys(t, "key 2 seals", "rotate", "--datastore", dsn)
	for i, address := range addresses {
		if next, names := pageOf(t, address, token); names != "/p/b" || next == "" {
			t.Errorf("replica %d goes on with %q, then %q", i, names, next)
		}
	}
	out := tokenKeys(t, "seals and opens", "list", "--datastore", dsn)
	b, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	keys, err := b.TokenKeys(t.Context())
	if err != nil || len(keys) != 2 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	for _, k := range keys {
		for _, form := range []string{"%s", "%x", "%X", "%d"} {
			if strings.Contains(out, fmt.Sprintf(form, k.Key)) {
				t.Error("a secret is shown")
			}
		}
		if strings.Contains(out, base64.StdEncoding.EncodeToString(k.Key)) {
			t.Error("a secret is shown")
		}
	}
}

// pageOf fetches a page of one object through a socket.
func pageOf(t *testing.T, socket, token string) (next, names string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	resp, err := client.Get("http://objects/v1/objects//p/?limit=1&continue=" + url.QueryEscape(token))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	var list struct {
		Metadata struct{ Continue string }
		Items    []struct{ Metadata struct{ Key string } }
	}
	if err != nil || resp.StatusCode != http.StatusOK || json.Unmarshal(body, &list) != nil {
		t.Fatalf("page: %s, %s, %v", resp.Status, body, err)
	}
	for _, item := range list.Items {
		names += item.Metadata.Key
	}
	return list.Metadata.Continue, names
}
