package images

import (
	"context"
	"strings"

	"github.com/moby/moby/client"
)

// freezeTries is how often to try to freeze a container.
const freezeTries = 10

// Pause freezes all processes of a container. The cgroup v1 freezer sometimes fails for processes that start others or
// write to disk at the same time ("unable to freeze"), so Pause retries.
func (e *Engine) Pause(ctx context.Context, container string) error {
	for tries := 1; ; tries++ {
		_, err := e.Client.ContainerPause(ctx, container, client.ContainerPauseOptions{})
		if err == nil || tries == freezeTries || ctx.Err() != nil || !strings.Contains(err.Error(),
			"unable to freeze") {
			return err
		}
	}
}
