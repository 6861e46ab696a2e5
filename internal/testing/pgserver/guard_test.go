package pgserver

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/internal/testing/images"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver/guard"
)

// role is that of a process that starts a server of the kind that it is given, and waits to be killed.
const role = "victim"

func TestMain(m *testing.M) {
	if kind, ok := env.IsChild(role); ok {
		victim(kind)
	}
	os.Exit(m.Run())
}

func victim(kind string) {
	newNode := map[string]func(context.Context, Options) (node, error){
		"container": func(ctx context.Context, o Options) (node, error) { return newContainer(ctx, o) },
		"binaries":  func(_ context.Context, o Options) (node, error) { return newLocal(o) },
	}[kind]
	s, err := start(Options{}, newNode)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	switch n := s.node.(type) {
	case *container:
		fmt.Println("runs:" + n.name)
	case *local:
		fmt.Println("runs:" + n.dir)
	}
	select {}
}

func TestNothingOutlivesAKilledProcess(t *testing.T) {
	for kind := range kinds(t) {
		t.Run(kind, func(t *testing.T) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), env.AsChild(role, kind))
			out, err := cmd.StdoutPipe()
			check(t, err)
			check(t, cmd.Start())
			var name string
			for lines := bufio.NewScanner(out); name == "" && lines.Scan(); {
				t.Log(lines.Text())
				name, _ = strings.CutPrefix(lines.Text(), "runs:")
				if name == lines.Text() {
					name = ""
				}
			}
			pid := 0
			if kind == "binaries" {
				pid = guard.Postmaster(name)
			}
			if name == "" || !there(t, kind, name, pid) {
				t.Fatal("the process started no server")
			}
			check(t, cmd.Process.Kill())
			_ = cmd.Wait()
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for end := time.After(30 * time.Second); there(t, kind, name, pid); {
				select {
				case <-tick.C:
				case <-end:
					t.Fatalf("%s still exists", name)
				}
			}
		})
	}
}

// there reports whether the container, or the server's process or directory, exists.
func there(t *testing.T, kind, name string, pid int) bool {
	t.Helper()
	if kind == "binaries" {
		_, err := os.Stat(name)
		return err == nil || (pid != 0 && syscall.Kill(pid, 0) == nil)
	}
	e, err := images.Find()
	check(t, err)
	_, err = e.Client.ContainerInspect(t.Context(), name, client.ContainerInspectOptions{})
	return err == nil
}
