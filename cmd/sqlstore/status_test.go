package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore/internal/testing/authority"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/status"
)

// wantStatus runs the command until its output contains all parts, and then checks its exit code.
func wantStatus(t *testing.T, ready bool, args []string, parts ...string) {
	t.Helper()
	deadline, tick := time.After(time.Minute), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for {
		out, err := sqlstore(t, append([]string{"status"}, args...)...)
		missing := ""
		for _, p := range parts {
			if !strings.Contains(strings.Join(strings.Fields(out), " "), p) {
				missing = p
			}
		}
		if missing == "" && (err == nil) == ready {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("status %q: %v, want %q in\n%s", args, err, missing, out)
		}
	}
}

func TestStatusCommand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("quota-backend-bytes: 1000000000\n")
	s := launch.Start(t, launch.Config{Args: []string{"--config-file", path, "--name", "edge"}})
	hangup := func() {
		t.Helper()
		if err := syscall.Kill(s.PID(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	endpoint := []string{"--endpoint", s.ClientURL()}
	wantStatus(t, true, endpoint, s.ClientURL()+": edge, sqlstore ", "generation 1", "datastore "+s.DataDir(),
		"revision 1,",
		"CONDITION STATUS AGE GENERATION REASON MESSAGE", "Accepted True ", "ResolvedRefs True ", "Programmed True ",
		"Ready True ", "1 Ready reads and writes are served")
	wantStatus(t, true, []string{"--endpoint", s.MetricsURL() + "," + s.Endpoint()}, s.MetricsURL()+": edge",
		s.Endpoint()+": edge")

	for _, bad := range []struct{ text, reason string }{
		{
			"quota-backend-byte: 4000000000\n",
			`2 Invalid generation 2 of the configuration was refused, and generation 1 stays in force: --config-file ` +
				path,
		},
		{
			"max-txn-ops: 5\n",
			`3 FixedSetting generation 3 of the configuration was refused, and generation 1 stays in force: ` +
				`these settings cannot change while the server runs: max-txn-ops`,
		},
	} {
		write(bad.text)
		hangup()
		wantStatus(t, true, endpoint, "Accepted False ", bad.reason, "1 Programmed ")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	hangup()
	wantStatus(t, true, endpoint, "Accepted False ", "4 FileUnreadable ", "generation 4")
	write("quota-backend-bytes: 3000000000\n")
	hangup()
	wantStatus(t, true, endpoint, "Accepted True ", "5 Accepted the configuration is valid", "5 Programmed ",
		"5 Ready ")

	c := connect(t, s.Endpoint())
	raise := &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_NOSPACE}
	if _, err := pb.NewMaintenanceClient(c.ActiveConnection()).Alarm(t.Context(), raise); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, false, endpoint, "Ready False ", "NoSpace True ", "sqlstore: not every server is ready")
	out, err := sqlstore(t, "status", "-o", "json", endpoint[0], endpoint[1])
	var answers []struct {
		Endpoint string
		Status   status.Report
	}
	if err == nil || json.NewDecoder(strings.NewReader(out)).Decode(&answers) != nil || len(answers) != 1 ||
		answers[0].Endpoint != s.ClientURL() ||
		!status.IsTrue(answers[0].Status.Conditions, status.NoSpace) {
		t.Errorf("json: %v\n%s", err, out)
	}
	if _, err := c.AlarmDisarm(t.Context(), &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, true, endpoint, "Ready True ")

	gone, err := launch.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	wantStatus(t, false, []string{"--endpoint", s.ClientURL(), "--endpoint", "http://" + gone},
		"Ready True ", "sqlstore: http://"+gone+" does not answer: ", "connection refused",
		"check that the server is running")
	for _, args := range [][]string{
		{"--endpoint", "ftp://127.0.0.1"},
		{"--endpoint", ""},
		{"-o", "yaml"},
		{"--cert", "x"},
		{"--cacert", path},
		{"--endpoint", "http://u:secret@h"},
	} {
		if out, err := sqlstore(t, append([]string{"status"}, args...)...); err == nil || !strings.Contains(out,
			args[0]) && !strings.Contains(out, "--output") ||
			strings.Contains(out, "secret") {
			t.Errorf("status %q: %v\n%s", args, err, out)
		}
	}
}

func TestStatusCommandOverTLSAndSockets(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	ca, l := authority.New(t), newLog()
	for name, files := range map[string][2]string{"server": {"cert", "key"}, "client": {"client", "client-key"}} {
		cert, key := ca.Issue(name)
		authority.Write(t, at(files[0]), cert)
		authority.Write(t, at(files[1]), key)
	}
	authority.Write(t, at("ca"), ca.PEM())
	launch.Start(t, launch.Config{Log: l, Args: []string{
		"--listen-client-urls", "https://127.0.0.1:0,unix://" + at("plain") + ",unixs://" + at("secure"),
		"--cert-file", at("cert"), "--key-file", at("key"), "--trusted-ca-file", at("ca"),
	}})
	address := secureEndpoint(t, l)
	files := []string{"--cacert", at("ca"), "--cert", at("client"), "--key", at("client-key")}
	wantStatus(t, true, append(files, "--endpoint", address+",https://"+address), address+": default", "Ready True ")
	wantStatus(t, true, []string{"--endpoint", "unix://" + at("plain")}, "Ready True ")
	wantStatus(t, false, []string{"--endpoint", "https://" + address}, "does not answer",
		"certificate signed by unknown authority")
	wantStatus(t, false, append([]string{"--endpoint", "https://" + address}, files[:2]...), "does not answer",
		"certificate required")
}
