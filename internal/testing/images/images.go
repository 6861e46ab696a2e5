// Package images provides the container images that tests run, even if no registry is reachable: build.sh builds them
// on the host from Debian's packages, in about a minute each. For tests only.
//
// It looks for an image in this order: one built here earlier from the same recipe, the official one if the engine has
// it, the official one from its registry if that answers within seconds, a build. Concurrent test processes that need
// the same image build it once. Every wait has a timeout.
package images

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/moby/moby/client"
)

// Prefix of the images that are built here.
const Prefix = "sqlstore-test/"

const (
	registryTimeout = 5 * time.Second // for the registry to say whether it has the image
	pullTimeout     = 3 * time.Minute
	buildTimeout    = 8 * time.Minute
)

//go:embed build.sh */Dockerfile */recipe */*.sh
var recipes embed.FS

// PostgresEntrypoint is a bash script for an image with Postgres's programs. It supports the variables of the images
// built here, including a standby's: bash -c PostgresEntrypoint entrypoint postgres ..., as the user postgres.
//
//go:embed postgres/entrypoint.sh
var PostgresEntrypoint string

// Postgres returns the reference of an image of this Postgres version, for example "15", that the engine has. It
// supports POSTGRES_PASSWORD and the official image's other variables that postgres/entrypoint.sh names.
func Postgres(ctx context.Context, e *Engine, version string) (string, error) {
	return ensure(ctx, e, "postgres", version, "postgres:"+version)
}

// PgBouncer returns the reference of an image of Debian's PgBouncer: see pgbouncer/entrypoint.sh for its variables.
func PgBouncer(ctx context.Context, e *Engine) (string, error) {
	return ensure(ctx, e, "pgbouncer", "latest", "")
}

// Patroni returns the reference of an image of Debian's Patroni with Postgres 15: see patroni/entrypoint.sh.
func Patroni(ctx context.Context, e *Engine) (string, error) {
	return ensure(ctx, e, "patroni", "15", "")
}

// ensure returns the image built here, or the official one unless that is "".
func ensure(ctx context.Context, e *Engine, name, version, official string) (string, error) {
	own := Prefix + name + ":" + version
	recipe, err := recipeOf(name)
	if err != nil {
		return "", err
	}
	if ref := present(ctx, e, recipe, own, official); ref != "" {
		return ref, nil
	}
	unlock, err := lock("images.lock")
	if err != nil {
		return "", fmt.Errorf("wait for other builds of images: %w", err)
	}
	defer unlock()
	if ref := present(ctx, e, recipe, own, official); ref != "" {
		return ref, nil
	}
	var pullErr error
	if official != "" {
		if pullErr = pull(ctx, e, official); pullErr == nil {
			return official, nil
		}
	}
	if err := build(ctx, name, version, own); err != nil {
		return "", errors.Join(err, pullErr)
	}
	return own, nil
}

// present returns the image built here from this recipe or, without one, the official image; "" if the engine has
// neither.
func present(ctx context.Context, e *Engine, recipe, own, official string) string {
	if i, err := e.Client.ImageInspect(ctx, own); err == nil && i.Config != nil && i.Config.Labels["recipe"] == recipe {
		return own
	}
	if official != "" {
		if _, err := e.Client.ImageInspect(ctx, official); err == nil {
			return official
		}
	}
	return ""
}

// recipeOf returns the label that build.sh gives to an image: a hash of the files that the image is built from.
func recipeOf(name string) (string, error) {
	files, err := fs.Glob(recipes, name+"/*") // in the same order as the shell's
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, file := range append([]string{"build.sh"}, files...) {
		text, err := recipes.ReadFile(file)
		if err != nil {
			return "", err
		}
		sum.Write(text)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// pull fetches an image if its registry answers.
func pull(ctx context.Context, e *Engine, ref string) error {
	ask, cancel := context.WithTimeout(ctx, registryTimeout)
	defer cancel()
	if _, err := e.Client.DistributionInspect(ask, ref, client.DistributionInspectOptions{}); err != nil {
		return fmt.Errorf("ask the registry for %s: %w", ref, err)
	}
	ctx, cancel = context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	progress, err := e.Client.ImagePull(ctx, ref, client.ImagePullOptions{})
	if err == nil {
		defer progress.Close()
		err = progress.Wait(ctx)
	}
	if err != nil {
		return fmt.Errorf("pull %s: %w", ref, err)
	}
	return nil
}

// build runs build.sh from the embedded recipes, so that it works from every module and build mode.
func build(ctx context.Context, name, version, tag string) error {
	dir, err := os.MkdirTemp("", "sqlstore-images-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, recipes); err != nil {
		return fmt.Errorf("write the image recipes: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", filepath.Join(dir, "build.sh"), name, version, tag)
	// mmdebstrap runs in its own process group, which it ends on a signal; the script's pipes must not wait for it.
	cmd.WaitDelay = 10 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build image %s from Debian's packages: %w\n%s", tag, err, out[max(0, len(out)-4<<10):])
	}
	return nil
}
