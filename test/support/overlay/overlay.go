// Package overlay builds programs with changes to Go's standard library, for what no test can reach from outside: the
// clock of a static program, the random numbers of the runtime.
package overlay

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Change is a change to the standard library.
type Change struct {
	file      string // below src of Go's root, with slashes
	old, text string // old is "" if the file is new
}

// Replace replaces a piece of a file, which must occur once. The file's path is the one below src of Go's root.
func Replace(file, old, text string) Change { return Change{file, old, text} }

// Add adds a file.
func Add(file, text string) Change { return Change{file, "", text} }

// Go runs a go command that builds something, such as "build" or "test -c", in a directory, over the changed library.
// env is added to the environment.
func Go(ctx context.Context, dir string, changes []Change, env []string, command string, args ...string) error {
	files, err := os.MkdirTemp("", "overlay-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(files)
	list, err := write(files, changes)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", append([]string{command, "-overlay", list}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "GOWORK=off"), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", command, err, out)
	}
	return nil
}

// write writes the changed files into a directory, and returns the file for -overlay, which lists them.
func write(dir string, changes []Change) (string, error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("find Go's standard library: %w", err)
	}
	library, texts := filepath.Join(strings.TrimSpace(string(out)), "src"), map[string]string{}
	for _, c := range changes {
		text, ok := texts[c.file]
		if !ok && c.old != "" {
			b, err := os.ReadFile(filepath.Join(library, filepath.FromSlash(c.file)))
			if err != nil {
				return "", err
			}
			text = string(b)
		}
		if texts[c.file], err = c.apply(text); err != nil {
			return "", err
		}
	}
	replace := map[string]string{}
	for name, text := range texts {
		path := filepath.Join(dir, strings.ReplaceAll(name, "/", "-"))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(library, filepath.FromSlash(name))] = path
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	list := filepath.Join(dir, "overlay.json")
	return list, os.WriteFile(list, b, 0o600)
}

func (c Change) apply(text string) (string, error) {
	if c.old == "" {
		return c.text, nil
	}
	if n := strings.Count(text, c.old); n != 1 {
		return "", fmt.Errorf("%s of this version of Go has %d times %q: adapt the change to it", c.file, n, c.old)
	}
	return strings.Replace(text, c.old, c.text, 1), nil
}
