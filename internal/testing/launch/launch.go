// Package launch runs real servers, usually the sqlstore binary, for tests: on free ports of the loopback interface, in
// a separate directory. It kills them when the test ends and shows their log if the test fails.
//
//	server := launch.Start(t, launch.Config{Args: []string{"--max-txn-ops", "16"}})
//	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}})
//	...
//	server.Kill()     // SIGKILL, as a crash would
//	server.Restart(t) // on the same directory and ports
package launch

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// readyTimeout limits the wait for /readyz: generous, because tests share slow machines.
const readyTimeout = 60 * time.Second

// stopTimeout limits the wait for a graceful stop.
const stopTimeout = 60 * time.Second

// Config configures a server. The zero Config is a server with default settings and an empty directory.
type Config struct {
	// Command is the program and its first arguments; nil is `sqlstore serve`. It can be any server that has etcd's
	// flags for directory and listeners and answers /readyz, such as etcd itself.
	Command []string
	// DataDir is the server's --data-dir; "" is a new directory that is removed with the test.
	DataDir string
	// Objects also opens the listener of the list/watch API.
	Objects bool
	// Args follow the flags that launch sets itself, and so take precedence.
	Args []string
	// Env is added to the environment of the test, each as "NAME=value".
	Env []string
	// Log also receives what the server writes to its standard output and standard error.
	Log io.Writer
	// MayEnd means that the server may exit unasked without failing the test.
	MayEnd bool
}

// Server is one sqlstore process or, after Kill, Stop and Restart, a sequence of them on one directory and one pair of
// ports. Its methods are safe for concurrent use, except that Restart and Use must run alone.
type Server struct {
	cfg     Config
	client  string // host:port
	metrics string // host:port
	objects string // host:port; "" without that listener
	log     *tail

	mu      sync.Mutex
	process *process
}

// process is one run of the binary.
type process struct {
	cmd     *exec.Cmd
	done    chan struct{} // closed when the process has been waited for
	err     error         // from Wait; read only after done
	stopped bool          // by the test; guarded by Server.mu
}

// Start runs `sqlstore serve` and waits until it is ready. It kills the process when the test ends. The test fails if
// the server does not become ready, or exits unasked.
func Start(tb testing.TB, cfg Config) *Server {
	tb.Helper()
	server, err := TryStart(tb, cfg)
	if err != nil {
		tb.Fatalf("launch: %v", err)
	}
	return server
}

// TryStart is Start for servers that may refuse to start: it returns the error, which includes the end of the server's
// log, instead of failing the test.
func TryStart(tb testing.TB, cfg Config) (*Server, error) {
	tb.Helper()
	if cfg.DataDir == "" {
		cfg.DataDir = tb.TempDir()
	}
	client, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	metrics, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, client: client, metrics: metrics, log: &tail{also: cfg.Log}}
	if cfg.Command == nil {
		s.cfg.Command = []string{Binary(tb), "serve"}
	}
	if cfg.Objects {
		if s.objects, err = FreeAddress(); err != nil {
			return nil, err
		}
	}
	tb.Cleanup(func() { s.cleanup(tb) })
	if err := s.start(); err != nil {
		return nil, err
	}
	return s, nil
}

// Endpoint returns host:port of the gRPC listener.
func (s *Server) Endpoint() string { return s.client }

// ClientURL returns the URL of the gRPC listener, which also serves the JSON gateway.
func (s *Server) ClientURL() string { return "http://" + s.client }

// MetricsURL returns the URL that serves /metrics, /readyz and so on.
func (s *Server) MetricsURL() string { return "http://" + s.metrics }

// ObjectsURL returns the URL of the list/watch API, if Config has Objects.
func (s *Server) ObjectsURL() string { return "http://" + s.objects }

// DataDir returns the server's data directory.
func (s *Server) DataDir() string { return s.cfg.DataDir }

// Log returns the end of the server's standard output and standard error, across all restarts.
func (s *Server) Log() string { return s.log.String() }

// PID returns the process id of the running server, or of the last one.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.cmd.Process.Pid
}

// Exited returns a channel that is closed when the current process has ended.
func (s *Server) Exited() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.done
}

// Kill ends the server with SIGKILL and waits for that. It does nothing if the server has already ended.
func (s *Server) Kill() {
	p := s.signal(syscall.SIGKILL)
	<-p.done
}

// Stop ends the server with SIGTERM and waits for it. It returns an error if the server exits with a non-zero status,
// or has to be killed because it does not end within a minute.
func (s *Server) Stop() error {
	p := s.signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return p.err
	case <-time.After(stopTimeout):
		s.Kill()
		return fmt.Errorf("server did not stop within %s of SIGTERM", stopTimeout)
	}
}

// Restart starts the server again on the same directory and ports, killing it first if it still runs, and waits until
// it is ready.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	if err := s.TryRestart(); err != nil {
		tb.Fatalf("launch: %v", err)
	}
}

// TryRestart is Restart returning the error instead of failing the test.
func (s *Server) TryRestart() error {
	s.Kill()
	return s.start()
}

func (s *Server) start() error {
	args := append(slices.Clone(s.cfg.Command[1:]),
		"--data-dir", s.cfg.DataDir,
		"--listen-client-urls", s.ClientURL(),
		"--advertise-client-urls", s.ClientURL(),
		"--listen-metrics-urls", s.MetricsURL(),
	)
	if s.objects != "" {
		args = append(args, "--listen-objects-urls", s.ObjectsURL())
	}
	cmd := exec.Command(s.cfg.Command[0], append(args, s.cfg.Args...)...)
	cmd.Env = append(os.Environ(), s.cfg.Env...)
	cmd.Stdout, cmd.Stderr = s.log, s.log
	cmd.SysProcAttr = sysProcAttr()
	if err := cmd.Start(); err != nil {
		return err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	s.mu.Lock()
	s.process = p
	s.mu.Unlock()

	if err := waitReady(s.MetricsURL()+"/readyz", p.done, readyTimeout); err != nil {
		s.Kill()
		s.mu.Lock()
		p.stopped = true // the caller has the error: cleanup need not report this end again
		s.mu.Unlock()
		return fmt.Errorf("start server: %w (%v)\n%s", err, p.err, s.Log()) //nolint:errorlint // p.err may be nil
	}
	return nil
}

// signal sends sig unless the process has ended, and records that its end is intended.
func (s *Server) signal(sig syscall.Signal) *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.process
	select {
	case <-p.done: // it ended before the signal
	default:
		p.stopped = true
		_ = p.cmd.Process.Signal(sig) // fails only if the process has just ended, which is fine
	}
	return p
}

// cleanup kills the server and reports an unintended end.
func (s *Server) cleanup(tb testing.TB) {
	s.mu.Lock()
	p := s.process
	s.mu.Unlock()
	if p == nil {
		return
	}
	s.Kill()
	s.mu.Lock()
	stopped := p.stopped
	s.mu.Unlock()
	if !stopped && !s.cfg.MayEnd {
		tb.Errorf("launch: the server exited unexpectedly: %v", p.err)
	}
	if tb.Failed() {
		tb.Logf("launch: end of the server's log:\n%s", s.Log())
	}
}
