package edge

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pages"
	"github.com/sqlstore/sqlstore/test/programs"
)

// timeout limits each wait: generous, because tests share slow machines.
const timeout = 3 * time.Minute

// binary returns the path of the program that `make edge` runs.
func binary(tb testing.TB) string {
	tb.Helper()
	path, err := build()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

var build = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/sqlstore/sqlstore").Output()
	if err != nil {
		return "", err
	}
	root := strings.TrimSpace(string(out))
	cmd := exec.Command("make", "-C", root, "edge-binary")
	cmd.Stderr = os.Stderr
	return filepath.Join(root, "bin", "edge"), cmd.Run()
})

// plane is a control plane on a directory, restarted at will.
type plane struct {
	testing.TB
	dir  string
	args []string
	*process
}

// newPlane prepares a control plane on an empty directory.
func newPlane(tb testing.TB, flags ...string) *plane {
	tb.Helper()
	address, err := launch.FreeAddress()
	if err != nil {
		tb.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "edge") //nolint:usetesting // t.TempDir's names are too long for sockets
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return &plane{TB: tb, dir: dir, args: append([]string{"--data-dir", dir, "--listen", address}, flags...)}
}

// start starts the control plane and waits until it says that it is ready.
func (p *plane) start() {
	p.Helper()
	p.process = start(p.TB, binary(p.TB), p.args...)
	p.process.await(p.TB, "msg=ready ")
}

func (p *plane) kubeconfig() string { return filepath.Join(p.dir, "admin.kubeconfig") }

// clients returns clients without a rate limit.
func (p *plane) clients() kubernetes.Interface {
	p.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig())
	if err != nil {
		p.Fatal(err)
	}
	cfg.QPS = -1
	cfg.WarningHandler = rest.NoWarnings{}
	clients, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		p.Fatal(err)
	}
	return clients
}

// kwok plays the nodes of the control plane until the test ends.
func (p *plane) kwok() *process {
	p.Helper()
	return start(p.TB, programs.Kwok.Path(p.TB), "--kubeconfig", p.kubeconfig(), "--config", p.example("kwok.yaml"),
		"--manage-all-nodes", "--node-lease-duration-seconds", "40")
}

// kubectl returns what kubectl prints.
func (p *plane) kubectl(args ...string) string {
	p.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, programs.Kubectl.Path(p.TB), append([]string{
		"--kubeconfig", p.kubeconfig(), "--cache-dir", filepath.Join(p.dir, "kubectl"),
	}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		p.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

// demo creates the nodes and the Deployment of the example's page.
func (p *plane) demo() {
	p.Helper()
	p.kubectl("apply", "-f", p.example("demo.yaml"))
}

// example returns the path of a file of the example.
func (p *plane) example(name string) string {
	p.Helper()
	return filepath.Join(pages.Root(p.TB), "examples", "edge", name)
}

// process is a running program.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when it has ended
	// expected is whether the test has asked it to end.
	expected bool
}

// start runs a program until the test ends. The test fails if it ends before, and a failed test shows the end of its
// log.
func start(tb testing.TB, path string, args ...string) *process {
	tb.Helper()
	log, err := os.Create(filepath.Join(tb.TempDir(), filepath.Base(path)+".log"))
	if err != nil {
		tb.Fatal(err)
	}
	defer log.Close() // the process has its own descriptor
	p := &process{cmd: exec.Command(path, args...), log: log.Name(), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // who expects an end looks at the state
		close(p.done)
	}()
	tb.Cleanup(func() {
		select {
		case <-p.done:
			if !p.expected {
				tb.Errorf("%s ended: %v", path, p.cmd.ProcessState)
			}
		default:
			p.end(tb, syscall.SIGKILL)
		}
		if tb.Failed() {
			content, _ := os.ReadFile(p.log)
			tb.Logf("end of the log of %s:\n%s", path, content[max(0, len(content)-16<<10):])
		}
	})
	return p
}

// end sends a signal, waits for the end and returns the state.
func (p *process) end(tb testing.TB, signal syscall.Signal) *os.ProcessState {
	tb.Helper()
	p.expected = true
	if err := p.cmd.Process.Signal(signal); err != nil {
		tb.Fatal(err)
	}
	select {
	case <-p.done:
	case <-time.After(timeout):
		_ = p.cmd.Process.Kill()
		tb.Fatalf("%s did not end after %s", p.cmd.Path, signal)
	}
	return p.cmd.ProcessState
}

// await waits until the program has logged a text.
func (p *process) await(tb testing.TB, text string) {
	tb.Helper()
	err := wait.PollUntilContextTimeout(tb.Context(), 20*time.Millisecond, timeout, true,
		func(context.Context) (bool, error) {
			content, err := os.ReadFile(p.log)
			select {
			case <-p.done:
				tb.Fatalf("%s ended: %v", p.cmd.Path, p.cmd.ProcessState)
			default:
			}
			return bytes.Contains(content, []byte(text)), err
		})
	if err != nil {
		tb.Fatalf("%s did not log %q: %v", p.cmd.Path, text, err)
	}
}
