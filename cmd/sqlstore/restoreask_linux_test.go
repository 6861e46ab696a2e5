package main_test

import (
	"bufio"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
)

// The question on a terminal: only yes writes, what somebody writes while it stands is not overwritten, and a
// compaction does no harm.
func TestRestoreAsks(t *testing.T) {
	s := launch.Start(t, launch.Config{})
	client := connect(t, s.Endpoint())
	put := func(key, value string) {
		t.Helper()
		if _, err := client.Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"/a/x", "/a/y"} {
		put(key, "1")
	}
	for _, key := range []string{"/a/x", "/a/y"} {
		put(key, "2")
	}
	for _, c := range []struct {
		answer      string
		fails       bool
		says, x, y  string
		meanwhile   string
		compacts    bool
		interrupted bool
	}{
		{answer: "\n", fails: true, says: "nothing was written", x: "2", y: "2"},
		{answer: "no\n", fails: true, says: "nothing was written", x: "2", y: "2"},
		{interrupted: true, fails: true, says: "nothing was written", x: "2", y: "2"},
		{answer: "y\n", fails: true, says: "1 key written", x: "1", y: "new", meanwhile: "new"},
		{answer: "Yes\n", says: "1 key written", x: "1", y: "1", compacts: true},
	} {
		master, slave := openTerminal(t)
		cmd := exec.CommandContext(t.Context(), launch.Binary(t), "restore", "--endpoint", s.ClientURL(), "--keys=/a/",
			"--to-revision=3")
		var out strings.Builder
		cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, &out, slave
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_ = slave.Close() // so that reading ends with the command
		asked := bufio.NewReader(master)
		if question, err := asked.ReadString(']'); err != nil || !strings.HasPrefix(question, "Write these ") {
			t.Fatalf("%q, %v", question, err)
		}
		if c.meanwhile != "" {
			put("/a/y", c.meanwhile)
		}
		if c.compacts { // the old values are safe
			if _, err := client.Compact(t.Context(), 5); err != nil {
				t.Fatal(err)
			}
		}
		if c.interrupted {
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := master.WriteString(c.answer); err != nil {
			t.Fatal(err)
		}
		err := cmd.Wait()
		var rest strings.Builder
		_, _ = asked.WriteTo(&rest) // ends with an error, because nobody has the terminal open
		if (err != nil) != c.fails || !strings.Contains(out.String()+rest.String(), c.says) {
			t.Errorf("%q: %v: %s%s", c.answer, err, &out, &rest)
		}
		for key, want := range map[string]string{"/a/x": c.x, "/a/y": c.y} {
			resp, err := client.Get(t.Context(), key)
			if err != nil || string(resp.Kvs[0].Value) != want {
				t.Errorf("after %q, %s is %v, %v; want %s", c.answer, key, resp, err, want)
			}
		}
	}
}
