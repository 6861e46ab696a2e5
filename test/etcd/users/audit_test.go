package users

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// entries returns the entries of an audit log for a call.
func entries(t *testing.T, path, call string) (found []map[string]any) {
	t.Helper()
	for line := range strings.Lines(readFile(t, path)) {
		entry := map[string]any{}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if entry["call"] == call {
			found = append(found, entry)
		}
	}
	return found
}

// await waits until something is so.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	every := time.NewTicker(5 * time.Millisecond)
	defer every.Stop()
	for end := time.After(timeout); !so(); {
		select {
		case <-every.C:
		case <-end:
			t.Fatalf("not within %s: %s", timeout, what)
		}
	}
}

// The audit log says who called what with what result, and never contains values, passwords or tokens.
func TestAuditLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	s := servers.OnlyTarget(t, append(cheap, "--audit-log", path, "--audit-log-level", "all")...)
	c := connect(t, s)
	root := c.enable()
	alice := c.login("alice", "the password of alice")
	ctx := c.as(alice)
	c.must(c.put(alice, "a/k", "a secret value"))
	_ = c.put(alice, "b", "a secret value")
	_ = c.get("", "a/k", false)
	_, _ = c.auth.Authenticate(c.as(""), &pb.AuthenticateRequest{Name: "alice", Password: "a wrong password"})
	_, err := c.kv.Txn(ctx, &pb.TxnRequest{
		Compare: []*pb.Compare{{
			Key: []byte("a/k"), Target: pb.Compare_VALUE,
			TargetUnion: &pb.Compare_Value{Value: []byte("a secret value")},
		}},
		Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{
			Key: []byte("a/l"), Value: []byte("a secret value"),
		}}}},
	})
	c.must(err)
	stream, err := c.kv.RangeStream(ctx, &pb.RangeRequest{Key: []byte("a/"), RangeEnd: []byte("a0")})
	c.must(err)
	for err == nil {
		_, err = stream.Recv()
	}
	watching, cancel := context.WithCancel(ctx)
	watch, err := c.watch.Watch(watching)
	c.must(err)
	for _, key := range []string{"a/", "b"} {
		c.must(watch.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
			CreateRequest: &pb.WatchCreateRequest{Key: []byte(key), StartRevision: 1},
		}}))
		_, err = watch.Recv()
		c.must(err)
	}
	cancel()
	_, err = c.auth.RoleGrantPermission(c.as(root), &pb.AuthRoleGrantPermissionRequest{
		Name: "a", Perm: &authpb.Permission{Key: []byte("c"), RangeEnd: []byte("d")},
	})
	c.must(err)
	lease, err := c.lease.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: 60})
	c.must(err)
	for _, want := range []struct {
		call   string
		fields map[string]any
	}{
		{"/etcdserverpb.KV/Put", map[string]any{"user": "alice", "key": "a/k", "revision": 2.0, "outcome": "OK"}},
		{"/etcdserverpb.KV/Put", map[string]any{
			"user": "alice", "key": "b", "outcome": "PermissionDenied: etcdserver: permission denied",
		}},
		{"/etcdserverpb.KV/Range", map[string]any{
			"key": "a/k", "outcome": "InvalidArgument: etcdserver: user name is empty",
		}},
		{"/etcdserverpb.Auth/Authenticate", map[string]any{"name": "alice", "outcome": "OK"}},
		{"/etcdserverpb.Auth/Authenticate", map[string]any{
			"name":    "alice",
			"outcome": "InvalidArgument: etcdserver: authentication failed, invalid user ID or password",
		}},
		{"/etcdserverpb.KV/Txn", map[string]any{"user": "alice", "revision": 3.0, "outcome": "OK"}},
		{"/etcdserverpb.KV/RangeStream", map[string]any{
			"user": "alice", "key": "a/", "range_end": "a0", "revision": 3.0, "outcome": "OK",
		}},
		{"/etcdserverpb.Watch/Watch", map[string]any{"user": "alice", "key": "a/", "outcome": "OK"}},
		{"/etcdserverpb.Watch/Watch", map[string]any{
			"user": "alice", "key": "b", "outcome": "PermissionDenied: etcdserver: permission denied",
		}},
		{"/etcdserverpb.Auth/RoleGrantPermission", map[string]any{
			"user": "root", "role": "a", "key": "c", "range_end": "d", "permission": "READ", "outcome": "OK",
		}},
		{"/etcdserverpb.Lease/LeaseGrant", map[string]any{
			"user": "alice", "lease": strconv.FormatInt(lease.ID, 16), "outcome": "OK",
		}},
		{"/etcdserverpb.Auth/UserAdd", map[string]any{"name": "alice", "outcome": "OK"}},
		{"/etcdserverpb.Auth/AuthEnable", map[string]any{"outcome": "OK"}},
	} {
		has := func() bool {
			for _, e := range entries(t, path, want.call) {
				matches := strings.HasPrefix(e["address"].(string), "127.0.0.1:")
				for name, value := range want.fields {
					matches = matches && e[name] == value
				}
				if matches {
					return true
				}
			}
			return false
		}
		await(t, want.call, has)
	}
	operations := entries(t, path, "/etcdserverpb.KV/Txn")[0]["operations"].([]any)
	if len(operations) != 2 || operations[1].(map[string]any)["key"] != "a/l" {
		t.Errorf("operations %v", operations)
	}
	text := readFile(t, path)
	for _, secret := range []string{
		"secret", rootPassword, "the password of alice", "a wrong password", root, alice, "$2a$",
	} {
		if strings.Contains(text, secret) {
			t.Errorf("the audit log contains %q", secret)
		}
	}
}

// At the level of writes, reads are not logged. SIGHUP continues in a new file, also where the settings are refused.
func TestAuditLogRotates(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.log")
	s := servers.TargetWith(t, launch.Config{Args: append(cheap, "--audit-log", path)})
	c := connect(t, s)
	c.must(c.put("", "before", "v"))
	c.must(c.get("", "before", false))
	const put = "/etcdserverpb.KV/Put"
	await(t, "the first entry", func() bool { return len(entries(t, path, put)) == 1 })
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(s.PID(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	await(t, "the new file", func() bool {
		_, err := os.Stat(path)
		return err == nil
	})
	c.must(c.put("", "after", "v"))
	await(t, "the second entry", func() bool { return len(entries(t, path, put)) == 1 })
	if n := len(entries(t, path+".1", put)) + len(entries(t, path+".1", "/etcdserverpb.KV/Range")); n != 1 {
		t.Errorf("%d entries in the old file", n)
	}
}

// A failing audit log raises a condition, and the store goes on.
func TestAuditLogFails(t *testing.T) {
	s := servers.OnlyTarget(t, append(cheap, "--audit-log", "/dev/full")...)
	c := connect(t, s)
	c.must(c.put("", "k", "v"))
	await(t, "the condition", func() bool {
		resp, err := http.Get(s.MetricsURL() + "/status")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var status struct {
			Conditions []struct{ Type, Status, Reason string }
		}
		if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
			t.Fatal(err)
		}
		failing, ready := false, false
		for _, c := range status.Conditions {
			failing = failing || c.Type == "AuditLogFailing" && c.Status == "True" && c.Reason == "WriteFailed"
			ready = ready || c.Type == "Ready" && c.Status == "True"
		}
		return failing && ready
	})
	c.must(c.put("", "k", "w"))
	c.must(c.get("", "k", false))
}
