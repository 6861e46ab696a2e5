package e2e

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// commands are the README's lines that call curl.
var commands = regexp.MustCompile(`(?m)^    (curl .*/v1/objects/.*)$`)

// TestREADME types what the README says, line by line, at a fresh server; only the address is another one.
func TestREADME(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatalf("this test runs curl itself, which is missing: install curl: %v", err)
	}
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	s := startSQLite(t)
	lines := commands.FindAllStringSubmatch(string(readme), -1)
	if len(lines) < 5 {
		t.Fatalf("the README has %d calls of curl, want a create, an update, a list, a watch and a deletion", len(lines))
	}
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+`)
	for _, line := range lines {
		command := address.ReplaceAllString(line[1], s.servers[0].ObjectsURL())
		answer := firstLine(t, command)
		want := `"fleet/pump-7"`
		switch {
		case strings.Contains(command, "watch=true"):
			want = `"ADDED"`
		case strings.Contains(command, "DELETE"):
			want = `"Success"`
		}
		if !strings.Contains(answer, want) {
			t.Errorf("%s\nanswers %s, want %s", command, answer, want)
		}
	}
}

// firstLine runs a shell's command, and ends it when it has told a line: a watch goes on for ever.
func firstLine(t *testing.T, command string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", "exec "+command)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Errorf("%s: %v", command, err)
	}
	cancel()
	_ = cmd.Wait() // killed, or done before
	return line
}
