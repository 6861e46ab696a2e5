package packages

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// bootTimeout limits the start of a machine.
const bootTimeout = time.Minute

// archive returns a tar file of a small Debian of this machine's release, or Ubuntu. The machine that it becomes has no
// network to install from: it has etcdctl, and the packages for apt-get to install Prometheus.
var archive = sync.OnceValues(func() (string, error) {
	path := filepath.Join(work, "system.tar")
	const made = `. /etc/os-release
		[ "$ID" != ubuntu ] || more=,universe
		mmdebstrap --quiet --variant=apt --components="main${more:-}" --include=systemd,systemd-sysv,etcd-client \
			--customize-hook='export APT_CONFIG=$MMDEBSTRAP_APT_CONFIG && apt-get clean &&
				apt-get install --yes --quiet --download-only --no-install-recommends prometheus' --skip=cleanup/apt \
			"$VERSION_CODENAME" "$1"`
	out, err := exec.Command("bash", "-euc", made, "make", path).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("mmdebstrap: %w\n%s", err, out)
	}
	return path, err
})

// system returns the root directory of a new system, which does not run.
func system(t *testing.T) string {
	t.Helper()
	path, err := archive()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	run(t, "tar", "--extract", "--file", path, "--directory", root)
	return root
}

// machine is a system that runs under systemd, in a container whose only network is its loopback interface.
type machine struct {
	root   string
	leader string // process id of its systemd
}

// boot starts a new system.
func boot(t *testing.T) *machine {
	t.Helper()
	m := &machine{root: system(t)}
	if err := os.WriteFile(m.root+"/etc/hosts", []byte("127.0.0.1 localhost\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	console, err := os.Create(filepath.Join(t.TempDir(), "console"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("systemd-nspawn", "--quiet", "--boot", "--private-network", "--register=no", "--keep-unit",
		"--resolv-conf=off", "--timezone=off", "--console=pipe", "--machine=sqlstore-packages", "--directory", m.root)
	cmd.Stdout, cmd.Stderr = console, console
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // shuts the system down
		select {
		case <-ended:
		case <-time.After(bootTimeout):
			_ = cmd.Process.Kill()
			<-ended
		}
		if t.Failed() {
			log, _ := os.ReadFile(console.Name())
			t.Logf("console:\n%s", log)
		}
		_ = console.Close()
	})
	children := fmt.Sprintf("/proc/%d/task/%d/children", cmd.Process.Pid, cmd.Process.Pid)
	deadline := time.After(bootTimeout)
	for {
		select {
		case <-ended:
			t.Fatal("the system has ended")
		case <-deadline:
			t.Fatal("the system does not start")
		case <-time.After(100 * time.Millisecond):
		}
		pids, err := os.ReadFile(children)
		if err != nil {
			continue
		}
		m.leader = strings.TrimSpace(string(pids))
		state, _ := m.try("systemctl", "is-system-running")
		if slices.Contains([]string{"running", "degraded"}, strings.TrimSpace(state)) {
			return m
		}
	}
}

// try runs a command in the machine, and returns what it prints.
func (m *machine) try(command ...string) (string, error) {
	args := append([]string{
		"--target", m.leader, "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root", "--wd",
		"env", "--ignore-environment", "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
	}, command...)
	out, err := exec.Command("nsenter", args...).CombinedOutput()
	return string(out), err
}

// run runs a command in the machine, which must succeed.
func (m *machine) run(t *testing.T, command ...string) string {
	t.Helper()
	out, err := m.try(command...)
	if err != nil {
		journal, _ := m.try("journalctl", "--no-pager", "--lines=40")
		t.Fatalf("%s: %v\n%s\n%s", strings.Join(command, " "), err, out, journal)
	}
	return strings.TrimSpace(out)
}

// put copies a file into the machine.
func (m *machine) put(t *testing.T, path string) string {
	t.Helper()
	to := "/root/" + filepath.Base(path)
	run(t, "cp", path, m.root+to)
	return to
}

// dial connects to an address in the machine's network.
func (m *machine) dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked, so this thread ends with the goroutine
		var namespace *os.File
		if namespace, err = os.Open("/proc/" + m.leader + "/ns/net"); err != nil {
			return
		}
		defer namespace.Close()
		if err = unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			return
		}
		conn, err = new(net.Dialer).DialContext(ctx, network, address)
	}()
	<-done
	return conn, err
}
