package containers

import (
	"context"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	dockercontainer "github.com/moby/moby/api/types/container"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"

	"github.com/sqlstore/sqlstore/internal/testing/images"
	"github.com/sqlstore/sqlstore/test/support/hosts"
)

// timeout limits each start, and each command in a container.
const timeout = 2 * time.Minute

// image returns the image under test, and prepares testcontainers for this engine.
func image(t *testing.T) string {
	t.Helper()
	if _, err := images.Find(); err != nil {
		t.Fatal(err)
	}
	return images.Sqlstore(t)
}

// run starts a container and removes it when the test ends.
func run(t *testing.T, options ...testcontainers.ContainerCustomizer) testcontainers.Container {
	t.Helper()
	name := image(t) // the first call builds it
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	c, err := testcontainers.Run(ctx, name, options...)
	testcontainers.CleanupContainer(t, c)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// output returns what a container prints until it ends, and its exit code.
func output(t *testing.T, options ...testcontainers.ContainerCustomizer) (text string, code int) {
	t.Helper()
	c := run(t, append(options, testcontainers.WithWaitStrategyAndDeadline(timeout, wait.ForExit()))...)
	state, err := c.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return logs(t, c), state.ExitCode
}

func logs(t *testing.T, c testcontainers.Container) string {
	t.Helper()
	r, err := c.Logs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The image runs the programs of etcd's image by their names and paths, and sqlstore otherwise.
func TestPrograms(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"version"}, "sqlstore"},
		{[]string{"sqlstore", "version"}, "sqlstore"},
		{[]string{"etcd", "--version"}, "etcd Version: 3.7"},
		{[]string{"/usr/local/bin/etcd", "--version"}, "etcd Version: 3.7"},
		{[]string{"etcdctl", "version"}, "etcdctl version: 3.7"},
		{[]string{"/usr/local/bin/etcdutl", "version"}, "etcdutl version: 3.7"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			if got, code := output(t, testcontainers.WithCmd(c.args...)); code != 0 || !strings.Contains(got, c.want) {
				t.Errorf("exit code %d, printed %q, want %q", code, got, c.want)
			}
		})
	}
	// A Pod's command replaces the image's entrypoint; the engine finds the program in its PATH.
	for program, want := range map[string]string{"etcd": "etcd Version: 3.7", "/bin/kine": "kine version"} {
		t.Run(program+" of a Pod", func(t *testing.T) {
			got, code := output(t, testcontainers.WithEntrypoint(program, "--version"), testcontainers.WithCmd())
			if code != 0 || !strings.Contains(got, want) {
				t.Errorf("exit code %d, printed %q", code, got)
			}
		})
	}
}

// Without arguments the image serves to itself alone, and says so. The health check of the image finds it ready.
func TestHealthCheck(t *testing.T) {
	run(t, testcontainers.WithWaitStrategyAndDeadline(timeout, wait.ForAll(
		wait.ForLog("clients outside this container's network cannot connect"), wait.ForHealthCheck())))
}

// The image's programs do not run as root.
func TestUser(t *testing.T) {
	engine, err := images.Find()
	if err != nil {
		t.Fatal(err)
	}
	found, err := engine.Client.ImageInspect(t.Context(), image(t))
	if err != nil {
		t.Fatal(err)
	}
	if user := found.Config.User; user == "" || strings.HasPrefix(user, "0") || strings.HasPrefix(user, "root") {
		t.Errorf("the image's user is %q", user)
	}
}

// The command of etcd's documentation, with a volume.
func TestDocumentedCommand(t *testing.T) {
	volume := hosts.UniqueName()
	t.Cleanup(func() { removeVolume(t, volume) }) // after the container
	c := run(t, testcontainers.WithCmd(
		"/usr/local/bin/etcd", "--name", "s1", "--data-dir", "/etcd-data",
		"--listen-client-urls", "http://0.0.0.0:2379", "--advertise-client-urls", "http://0.0.0.0:2379",
		"--listen-peer-urls", "http://0.0.0.0:2380", "--initial-advertise-peer-urls", "http://0.0.0.0:2380",
		"--initial-cluster", "s1=http://0.0.0.0:2380", "--initial-cluster-token", "tkn",
		"--initial-cluster-state", "new", "--log-level", "info", "--logger", "zap", "--log-outputs", "stderr",
	), testcontainers.WithMounts(testcontainers.VolumeMount(volume, "/etcd-data")),
		testcontainers.WithWaitStrategyAndDeadline(timeout, wait.ForLog("ready to serve client requests")))
	for _, step := range []struct{ command, want string }{
		{"etcdctl put foo bar", "OK"},
		{"etcdctl get foo --print-value-only", "bar"},
		{"/usr/local/bin/etcdctl endpoint health", "is healthy"},
		{"etcdctl snapshot save /tmp/backup.db", "Snapshot saved"},
		{"etcdutl snapshot status /tmp/backup.db", ","},
	} {
		if got := execute(t, c, strings.Fields(step.command)...); !strings.Contains(got, step.want) {
			t.Errorf("%s prints %q, want %q", step.command, got, step.want)
		}
	}
}

// A container may write to its data directory alone.
func TestReadOnlyRoot(t *testing.T) {
	volume := hosts.UniqueName()
	t.Cleanup(func() { removeVolume(t, volume) }) // after the container
	c := run(t, testcontainers.WithCmd("etcd", "--data-dir", "/etcd-data"),
		testcontainers.WithHostConfigModifier(func(h *dockercontainer.HostConfig) { h.ReadonlyRootfs = true }),
		testcontainers.WithMounts(testcontainers.VolumeMount(volume, "/etcd-data")),
		testcontainers.WithWaitStrategyAndDeadline(timeout, wait.ForLog("ready to serve client requests")))
	for _, step := range []struct{ command, want string }{
		{"etcdctl put foo bar", "OK"},
		{"etcdctl put foo baz", "OK"},
		{"etcdctl snapshot save /etcd-data/backup.db", "Snapshot saved"},
		{"etcdutl snapshot status /etcd-data/backup.db", ","},
		{"etcdctl get foo --prefix --sort-by VALUE --print-value-only", "baz"},
		{"etcdctl endpoint hashkv", ","},
		{"etcdctl compact 3 --physical", "compacted revision 3"},
		{"etcdctl defrag", "Finished"},
		{"sqlstore check --data-dir /etcd-data", "0 problems"},
		{"sqlstore backup --from /etcd-data/backup.db --to /etcd-data/backups", "full"},
		{"sqlstore backup verify --from /etcd-data/backups", "0 problems"},
		{"sqlstore restore --from /etcd-data/backups --data-dir /etcd-data/restored", "are equal"},
	} {
		if got := execute(t, c, strings.Fields(step.command)...); !strings.Contains(got, step.want) {
			t.Errorf("%s prints %q, want %q", step.command, got, step.want)
		}
	}
}

// execute returns what a command in a running container prints.
func execute(t *testing.T, c testcontainers.Container, command ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	code, out, err := c.Exec(ctx, command)
	if err != nil {
		t.Fatalf("%v: %v", command, err)
	}
	b, err := io.ReadAll(out)
	if err != nil || code != 0 {
		t.Fatalf("%v: exit code %d, %v: %s", command, code, err, b)
	}
	return string(b)
}

func removeVolume(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "docker", "volume", "rm", "-f", name).CombinedOutput(); err != nil {
		t.Errorf("remove volume %s: %v\n%s", name, err, out)
	}
}
