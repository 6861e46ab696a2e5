// Package commit gets the source of older versions of sqlstore from the repository's history. For tests only.
package commit

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Export writes the files of a commit to dir, which must exist. If the repository is a shallow clone without the
// commit, it fetches it first; hash must be complete then.
func Export(ctx context.Context, repository, hash, dir string) error {
	if err := fetch(ctx, repository, hash); err != nil {
		return err
	}
	archive := filepath.Join(dir, "archive.tar")
	if _, err := git(ctx, repository, "archive", "--output", archive, hash); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "tar", "-x", "-C", dir, "-f", archive).CombinedOutput(); err != nil {
		return fmt.Errorf("unpack commit %s: %w\n%s", hash, err, out)
	}
	return os.Remove(archive)
}

func fetch(ctx context.Context, repository, hash string) error {
	if _, err := git(ctx, repository, "cat-file", "-e", hash+"^{commit}"); err == nil {
		return nil
	}
	shallow, err := git(ctx, repository, "rev-parse", "--is-shallow-repository")
	if err != nil {
		return fmt.Errorf("the test needs the repository's history, with commit %s: %w", hash, err)
	}
	if shallow != "true" {
		return fmt.Errorf("the repository's history lacks commit %s", hash)
	}
	if _, err := git(ctx, repository, "fetch", "--quiet", "--depth=1", "origin", hash); err != nil {
		return fmt.Errorf("this shallow clone lacks commit %s and cannot fetch it; run `git fetch --unshallow`: %w",
			hash, err)
	}
	return nil
}

func git(ctx context.Context, repository string, args ...string) (string, error) {
	// Git refuses a checkout that belongs to another user.
	cmd := exec.CommandContext(ctx, "git", append([]string{"-c", "safe.directory=*", "-C", repository}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("git %s: %w\n%s", args[0], err, out)
	}
	return strings.TrimSpace(string(out)), err
}
