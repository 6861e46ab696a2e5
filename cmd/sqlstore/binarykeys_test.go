package main_test

import (
	"bufio"
	"context"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
)

// Programs get keys that are not UTF-8 in base64 from every command that prints keys, as from the list/watch API.
func TestBinaryKeys(t *testing.T) {
	const dir, key = "a\xfe/", "a\xfe/\xff" // "Yf4v" and "Yf4v/w==" in base64
	s := launch.Start(t, launch.Config{})
	client := connect(t, s.Endpoint())
	for _, k := range []string{"text", key} { // revisions 2 and 3
		if _, err := client.Put(t.Context(), k, "v"); err != nil {
			t.Fatal(err)
		}
	}
	from := "--endpoint=" + s.ClientURL()
	for _, c := range []struct {
		list string // where the keys are in the output; "" is the output itself
		want []string
		args []string
	}{
		{"keys", []string{"Yf4v/w==", ""}, []string{"ls", "-r"}},
		{"entries", []string{"Yf4v", ""}, []string{"ls"}},
		{"groups", []string{"Yf4v", ""}, []string{"top", "--levels=1"}},
		{"keys", []string{"Yf4v/w=="}, []string{"diff", dir, "--from=2"}},
		{"keys", []string{"Yf4v/w=="}, []string{"restore", "--keys", dir, "--to-revision=2", "--dry-run"}},
		{"", []string{"Yf4v/w=="}, []string{"history", key}},
	} {
		out, err := sqlstore(t, append(c.args, from, "-o", "json")...)
		if err != nil {
			t.Fatalf("%v: %s, %v", c.args, out, err)
		}
		if got := encodedNames(t, out, c.list); !slices.Equal(got, c.want) {
			t.Errorf("%v: %q, want %q in %s", c.args, got, c.want, out)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, launch.Binary(t), "watch", dir, "--from=2", "-o", "json", from)
	var errOut strings.Builder
	cmd.Stderr = &errOut
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	cancel()
	_ = cmd.Wait()
	if err != nil {
		t.Fatalf("watch: %v: %s", err, &errOut)
	}
	if got := encodedNames(t, line, ""); got[0] != "Yf4v/w==" {
		t.Errorf("watch: %s", line)
	}
}

// encodedNames returns the keys and names in base64, "" for each that has none, of a list in an output.
func encodedNames(t *testing.T, out, list string) (names []string) {
	t.Helper()
	var answer map[string]json.RawMessage
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	items, ok := answer[list]
	if !ok {
		items = json.RawMessage("[" + out + "]")
	}
	var all []struct{ KeyBase64, NameBase64 string }
	if err := json.Unmarshal(items, &all); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	for _, x := range all {
		names = append(names, x.KeyBase64+x.NameBase64)
	}
	return names
}
