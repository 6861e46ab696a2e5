package images

import (
	"context"
	"strings"

	"github.com/moby/moby/client"
)

// freezeTries is how often a container is asked to stand still.
const freezeTries = 10

// Pause freezes all processes of a container. Where the kernel's freezer is of the first kind, it gives up now and then on processes
// that start others or write to disk meanwhile ("unable to freeze"), and is asked again.
func (e *Engine) Pause(ctx context.Context, container string) error {
	for tries := 1; ; tries++ {
		_, err := e.Client.ContainerPause(ctx, container, client.ContainerPauseOptions{})
		if err == nil || tries == freezeTries || ctx.Err() != nil || !strings.Contains(err.Error(), "unable to freeze") {
			return err
		}
	}
}
