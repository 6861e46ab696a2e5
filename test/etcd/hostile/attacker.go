package hostile

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/testing/env"
)

// role is an attacker's, which is another process of this test's binary. Its argument is the order.
const role = "attacker"

// order says what an attacker has to do.
type order struct {
	Abuse    string
	Endpoint string        // host:port
	CA       []byte        // PEM; empty without TLS
	Count    int           // how much
	Time     time.Duration // for how long at most
}

// outcome is the result of an order.
type outcome struct {
	Done int
	Err  string
}

// obeyOrder carries out the order that this process was started with, and reports whether there was one. What the
// attack opened stays open until standard input ends.
func obeyOrder() bool {
	raw, ok := env.IsChild(role)
	if !ok {
		return false
	}
	var o order
	if err := json.Unmarshal([]byte(raw), &o); err != nil {
		panic(err)
	}
	done, err := o.obey()
	out := outcome{Done: done}
	if err != nil {
		out.Err = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		panic(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return true
}

func (o order) obey() (int, error) {
	a, ok := abuseNamed(o.Abuse)
	if !ok {
		return 0, fmt.Errorf("no abuse has the name %q", o.Abuse)
	}
	t := &target{endpoint: o.Endpoint}
	if len(o.CA) > 0 {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(o.CA)
		t.tls = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	ctx, cancel := context.WithTimeout(context.Background(), o.Time)
	defer cancel()
	done, err := a.attack(ctx, t, o.Count)
	if ctx.Err() != nil {
		err = nil // what the end of the time interrupted is no failure
	}
	return done, err
}

// attacker is a process that carries out an order. It runs at a low priority, so that its own work does not slow down
// the well-behaved client: the test measures the server.
type attacker struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.Closer
	out chan outcome // one, once the order is carried out
}

func startAttacker(t *testing.T, o order) *attacker {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	a := &attacker{t: t, cmd: exec.Command("nice", "-n", "10", self), out: make(chan outcome, 1)}
	t.Logf("seed %d", seed())
	a.cmd.Env = append(os.Environ(), env.AsChild(role, string(raw)), env.Seed.With(seed()))
	a.cmd.Stderr = os.Stderr
	a.cmd.SysProcAttr = dieWithParent()
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.cmd.Process.Kill() })
	go func() {
		var o outcome
		if err := json.NewDecoder(out).Decode(&o); err != nil {
			o.Err = "the attacker reported no outcome: " + err.Error()
		}
		a.out <- o
	}()
	return a
}

// end ends the attacker and closes all that it has open.
func (a *attacker) end() {
	a.t.Helper()
	_ = a.in.Close()
	if err := a.cmd.Wait(); err != nil {
		a.t.Errorf("the attacker: %v", err)
	}
}
