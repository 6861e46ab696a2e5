package commandline

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// end runs a server in an empty directory until it ends, and returns its exit code.
func end(t *testing.T, command []string, env []string) (code int, output string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), env...)
	text, err := cmd.CombinedOutput()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(text)
}

// A start that cannot succeed ends like etcd's: with its exit code, and with the part of its message that tools look
// for.
func TestStartsThatFail(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(file, []byte("max-txn-ops: many\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, env, part string }{
		{args: "--no-such-flag", part: "flag provided but not defined: -no-such-flag"},
		{args: "--max-txn-ops many", part: `invalid value "many" for flag -max-txn-ops: parse error`},
		{args: "--max-txn-ops -1", part: `invalid value "-1" for flag -max-txn-ops`},
		{args: "--pre-vote=maybe", part: `invalid boolean value "maybe" for -pre-vote`},
		{args: "--listen-client-urls nonsense", part: `invalid value "nonsense" for flag -listen-client-urls`},
		{args: "--initial-cluster-state old", part: `for flag -initial-cluster-state`},
		{args: "--feature-gates NoSuchGate=true", part: "unrecognized feature gate: NoSuchGate"},
		{args: "stray", part: "is not a valid flag"},
		{args: "--listen-client-urls http://127.0.0.1:0", part: "--advertise-client-urls is required when " +
			"--listen-client-urls is set explicitly"},
		{args: "--listen-peer-urls http://example.com:1", part: "expected IP in URL for binding"},
		{args: "--election-timeout 100", part: "should be at least as 5 times as"},
		{args: "--election-timeout 60000", part: "is too long"},
		{args: "--heartbeat-interval 0", part: "--heartbeat-interval must be >0"},
		{args: "--auto-compaction-mode x", part: "unknown auto-compaction-mode"},
		{args: "--tls-min-version TLS1.1", part: "unexpected TLS version"},
		{args: "--tls-min-version TLS1.3 --tls-max-version TLS1.2", part: "is greater than max version"},
		{args: "--tls-min-version TLS1.3 --cipher-suites TLS_AES_128_GCM_SHA256", part: "only TLS1.3 is enabled"},
		{args: "--compact-hash-check-time 0s", part: "--compact-hash-check-time must be >0"},
		{args: "--feature-gates LeaseCheckpointPersist=true", part: "requires enabling feature gate LeaseCheckpoint"},
		{args: "--logger capnslog", part: "capnslog"},
		{args: "--log-format xml", part: "unknown log format: xml"},
		{args: "--discovery-fallback proxy", part: "v2 proxy is deprecated"},
		{args: "--name x", env: "ETCD_NAME=y", part: "shadowed by corresponding command-line flag"},
		{env: "ETCD_MAX_TXN_OPS=many", part: "ETCD_MAX_TXN_OPS"},
		{args: "--config-file " + file, part: "max-txn-ops"},
		{args: "--config-file /does/not/exist", part: "/does/not/exist"},
	} {
		t.Run(c.args+c.env, func(t *testing.T) {
			var env []string
			if c.env != "" {
				env = []string{c.env}
			}
			args := strings.Fields(c.args)
			want, etcds := end(t, append([]string{servers.Tool(t, "server")}, args...), env)
			got, ours := end(t, append([]string{launch.Binary(t), "etcd"}, args...), env)
			if got != want {
				t.Errorf("exit code %d, etcd's is %d:\n%s\n%s", got, want, ours, etcds)
			}
			for name, text := range map[string]string{"etcd": etcds, "sqlstore": ours} {
				plain := strings.ReplaceAll(text, `\"`, `"`)
				if !strings.Contains(plain, c.part) {
					t.Errorf("%s does not say %q:\n%s", name, c.part, text)
				}
			}
		})
	}
}
