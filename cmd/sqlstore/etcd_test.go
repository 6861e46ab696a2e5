package main_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
)

// asEtcd starts the binary with etcd's command line.
func asEtcd(t *testing.T, cfg launch.Config) *launch.Server {
	t.Helper()
	cfg.Command = []string{launch.Binary(t), "etcd"}
	return launch.Start(t, cfg)
}

// run runs the binary in an empty directory until it ends by itself.
func run(t *testing.T, name string, args, env []string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var out, problems bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = t.TempDir(), append(os.Environ(), env...), &out, &problems
	err := cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	return out.String(), problems.String(), cmd.ProcessState.ExitCode()
}

// The binary under the name etcd answers as etcd does to those who look at it.
func TestNamedEtcd(t *testing.T) {
	etcd := filepath.Join(t.TempDir(), "etcd")
	if err := os.Symlink(launch.Binary(t), etcd); err != nil {
		t.Fatal(err)
	}
	out, _, code := run(t, etcd, []string{"--version"}, nil)
	lines := strings.Split(out, "\n")
	if code != 0 || len(lines) != 5 || lines[0] != "etcd Version: 3.7.3" || !strings.HasPrefix(lines[1], "Git SHA: ") ||
		lines[2] != "Go Version: "+runtime.Version() || lines[3] != "Go OS/Arch: "+runtime.GOOS+"/"+runtime.GOARCH {
		t.Errorf("exit code %d, %q", code, out)
	}
	out, _, code = run(t, etcd, []string{"-h"}, nil)
	if code != 0 || !strings.Contains(out, "--initial-cluster-token") || !strings.Contains(out, "--datastore ") {
		t.Errorf("exit code %d, help %q", code, out)
	}
	out, problems, code := run(t, etcd, []string{"--no-such-flag"}, nil)
	if code != 2 || out != "" || !strings.HasPrefix(problems, "flag provided but not defined: -no-such-flag\nUsage:") {
		t.Errorf("exit code %d, %q, %q", code, out, problems)
	}
	_, problems, code = run(t, etcd, []string{"--max-txn-ops", "many"}, nil)
	if code != 2 || !strings.Contains(problems, `invalid value "many" for flag -max-txn-ops: parse error`) {
		t.Errorf("exit code %d, %q", code, problems)
	}
}

// What cannot be done ends the start with exit code 1 and a line that says what to do instead.
func TestEtcdRefuses(t *testing.T) {
	used := t.TempDir()
	if err := os.Mkdir(filepath.Join(used, "member"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"--name a --initial-advertise-peer-urls http://127.0.0.1:1 " +
			"--initial-cluster a=http://127.0.0.1:1,b=http://127.0.0.1:2", "--datastore postgres://"},
		{"--force-new-cluster", "no other members to leave"},
		{"--discovery-srv example.com", "--datastore postgres://"},
		{"--data-dir " + used, "sqlstore import"},
		{"--listen-client-urls http://127.0.0.1:0", "--advertise-client-urls is required"},
		{"--name a --initial-cluster b=http://127.0.0.1:1", "couldn't find local name"},
		{"--config-file /does/not/exist", "/does/not/exist"},
		{"--listen-client-urls https://127.0.0.1:0 --advertise-client-urls https://a:1", "--cert-file"},
		{"--log-outputs /does/not/exist", "/does/not/exist"},
		{"serve", `\"serve\" is not a valid flag`},
	} {
		t.Run(c.args, func(t *testing.T) {
			_, problems, code := run(t, launch.Binary(t), append([]string{"etcd"}, strings.Fields(c.args)...), nil)
			if code != 1 || !strings.Contains(problems, c.want) {
				t.Errorf("exit code %d, %s; want %q", code, problems, c.want)
			}
		})
	}
	_, problems, code := run(t, launch.Binary(t), []string{"serve", "--data-dir", used}, nil)
	if code != 1 || !strings.Contains(problems, "sqlstore import") {
		t.Errorf("serve: exit code %d, %s", code, problems)
	}
}

// Backups are configured under etcd's command line, too: by flags, and by sqlstore's own variables.
func TestEtcdBackups(t *testing.T) {
	l, dir := newLog(), t.TempDir()
	s := asEtcd(t, launch.Config{
		Log: l, Env: []string{"SQLSTORE_BACKUP_TO=" + dir, "SQLSTORE_BACKUP_KEEP=48h"},
		Args: []string{"--backup-interval", "100ms", "--log-level", "debug"},
	})
	l.wait(t, "a full backup is complete")
	if _, err := connect(t, s.Endpoint()).Put(t.Context(), "k", "v"); err != nil {
		t.Fatal(err)
	}
	l.wait(t, "saved changes")
	wantOutput(t, false, " 1-2 ", "backup", "list", "--from", dir)
}

// The log has etcd's keys in etcd's order, etcd's words, and the line for which launchers wait.
func TestEtcdLog(t *testing.T) {
	l := newLog()
	s := asEtcd(t, launch.Config{Log: l, Env: []string{"ETCD_SNAPSHOT_COUNT=5"}, Args: []string{"-wal-dir=/w"}})
	l.wait(t, `"msg":"serving client traffic"`)
	ready := l.wait(t, `"msg":"ready to serve client requests"`)
	dec := json.NewDecoder(strings.NewReader(ready))
	var keys []string
	for depth := 0; len(keys) < 4; {
		token, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		if token == json.Delim('{') {
			depth++
			continue
		}
		keys = append(keys, token.(string))
		if _, err := dec.Token(); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"level", "ts", "caller", "msg"}; !slices.Equal(keys, want) {
		t.Errorf("the keys begin with %q, want %q", keys, want)
	}
	var line struct{ Level, TS, Caller string }
	if err := json.Unmarshal([]byte(ready), &line); err != nil {
		t.Fatal(err)
	}
	if _, err := time.Parse("2006-01-02T15:04:05.000000Z0700", line.TS); err != nil || line.Level != "info" ||
		!strings.HasPrefix(line.Caller, "sqlstore/serve.go:") {
		t.Errorf("%+v, %v", line, err)
	}
	l.wait(t, `"msg":"flags without effect"`, "--snapshot-count")
	l.wait(t, `"msg":"flags without effect"`, "--wal-dir")
	err := s.Stop()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		t.Fatalf("%v, want the signal", err)
	}
	if status := exit.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v, want by SIGTERM as etcd does", exit)
	}
	l.wait(t, `"msg":"stopping"`)
}

// One port serves http and https, with a generated certificate, which a restart keeps.
func TestEtcdAutoTLS(t *testing.T) {
	address, err := launch.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	l := newLog()
	s := asEtcd(t, launch.Config{Log: l, Args: []string{
		"--listen-client-urls", "http://" + address + ",https://" + address,
		"--advertise-client-urls", "https://" + address, "--auto-tls", "--self-signed-cert-validity", "3",
	}})
	file := filepath.Join(s.DataDir(), "fixtures", "client", "cert.pem")
	made, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(made) {
		t.Fatal("no certificate")
	}
	for name, creds := range map[string]credentials.TransportCredentials{
		"http": insecure.NewCredentials(), "https": credentials.NewTLS(&tls.Config{RootCAs: trusted}),
	} {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(creds))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := pb.NewKVClient(conn).Put(t.Context(), &pb.PutRequest{Key: []byte("k")}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}, DisableKeepAlives: true}
		if got := fetch(t, transport, name+"://"+address+"/version"); !strings.Contains(got, "3.7.3") {
			t.Errorf("%s: %s", name, got)
		}
	}
	s.Restart(t)
	if content, err := os.ReadFile(file); err != nil || !bytes.Equal(content, made) {
		t.Errorf("the certificate changed: %v", err)
	}
}

// With --listen-client-http-urls, the client URLs serve only gRPC and those URLs only HTTP.
func TestEtcdHTTPURLs(t *testing.T) {
	address, err := launch.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	s := asEtcd(t, launch.Config{Args: []string{"--listen-client-http-urls", "http://" + address}})
	if _, err := connect(t, s.Endpoint()).Put(t.Context(), "k", "v"); err != nil {
		t.Error(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	for _, path := range []string{"/version", "/health", "/metrics", "/debug/vars"} {
		if got := fetch(t, transport, "http://"+address+path); got == "" {
			t.Errorf("%s: nothing", path)
		}
	}
	if got := fetch(t, transport, s.ClientURL()+"/version"); got != "" {
		t.Errorf("a URL for gRPC answered %q", got)
	}
}

// etcd's feature gates for checks of the data work, and its metric reports them. Other gates have no effect.
func TestEtcdCorruptChecks(t *testing.T) {
	transport := &http.Transport{DisableKeepAlives: true}
	for args, want := range map[string]string{
		"--compact-hash-check-time=1h":                                                            "0 0",
		"--corrupt-check-time=1h --feature-gates=InitialCorruptCheck=true":                        "0 1",
		"--compact-hash-check-time=1h --feature-gates=CompactHashCheck=true,LeaseCheckpoint=true": "1 0",
		"--feature-gates=AllAlpha=true":                                                           "1 1",
	} {
		s := asEtcd(t, launch.Config{Args: strings.Fields(args)})
		got := fetch(t, transport, s.ClientURL()+"/metrics")
		for i, gate := range []string{"CompactHashCheck", "InitialCorruptCheck"} {
			line := `etcd_server_feature_enabled{name="` + gate + `",stage="ALPHA"} ` + strings.Fields(want)[i]
			if !strings.Contains(got, line) {
				t.Errorf("%s: no %s", args, line)
			}
		}
	}
}

// fetch returns the body of a successful answer, or "".
func fetch(t *testing.T, transport *http.Transport, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return ""
	}
	return string(text)
}

// Without space etcd is ready, as it serves reads; sqlstore's own command says that it is not.
func TestReadyWithoutSpace(t *testing.T) {
	flags := launch.Config{Args: []string{"--quota-backend-bytes", "300000"}}
	for name, c := range map[string]struct {
		server *launch.Server
		ready  bool
	}{"etcd": {asEtcd(t, flags), true}, "serve": {launch.Start(t, flags), false}} {
		client := connect(t, c.server.Endpoint())
		for i := range 100 {
			if _, err := client.Put(t.Context(), strconv.Itoa(i), strings.Repeat("x", 100_000)); err != nil {
				break
			}
		}
		if alarms, err := client.AlarmList(t.Context()); err != nil || len(alarms.Alarms) != 1 {
			t.Fatalf("%s: alarms %v, %v", name, alarms, err)
		}
		transport := &http.Transport{DisableKeepAlives: true}
		if got := fetch(t, transport, c.server.MetricsURL()+"/readyz") != ""; got != c.ready {
			t.Errorf("%s: ready %t", name, got)
		}
	}
}
