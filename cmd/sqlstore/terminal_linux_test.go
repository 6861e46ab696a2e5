package main_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
)

// openTerminal opens a pseudo terminal.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = slave.Close() })
	return master, slave
}

// until reads from the terminal until a line contains part, and returns that line.
func until(t *testing.T, lines *bufio.Reader, part string) string {
	t.Helper()
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("no line with %q: %v", part, err)
		}
		if strings.Contains(line, part) {
			return line
		}
	}
}

// SIGHUP reloads the configuration of a server in the foreground, as of any other. When its terminal closes, it stops,
// unless nohup started it.
func TestClosedTerminal(t *testing.T) {
	// Under nohup, this test and its children ignore SIGHUP unless the test catches the signal.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(caught) })
	for name, ignored := range map[string]bool{"foreground": false, "nohup": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			config := filepath.Join(dir, "config.yaml")
			if err := os.WriteFile(config, []byte("log-level: info\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			serve := []string{
				launch.Binary(t), "serve", "--config-file", config, "--data-dir", dir, "--listen-client-urls",
				"unix://" + dir + "/socket",
			}
			if ignored {
				serve = append([]string{"sh", "-c", `trap "" HUP; exec "$@"`, "sh"}, serve...)
			}
			master, slave := openTerminal(t)
			cmd := exec.Command(serve[0], serve[1:]...)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			lines := bufio.NewReader(master)
			if line := until(t, lines, "ready"); strings.HasPrefix(line, "{") {
				t.Errorf("JSON on a terminal: %s", line)
			}
			if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			until(t, lines, "settings reloaded")
			if err := slave.Close(); err != nil {
				t.Fatal(err)
			}
			if err := master.Close(); err != nil {
				t.Fatal(err)
			}
			if ignored { // the server goes on and reloads once more
				wantGeneration(t, dir+"/socket")
				if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// wantGeneration waits until a server has reloaded twice.
func wantGeneration(t *testing.T, socket string) {
	t.Helper()
	for {
		out, err := exec.Command(launch.Binary(t), "status", "-o", "json", "--endpoint", "unix://"+socket).Output()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if strings.Contains(string(out), `"generation": 3`) {
			return
		}
	}
}
