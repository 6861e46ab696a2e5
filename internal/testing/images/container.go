package images

import (
	"bytes"
	"context"
	"fmt"

	"github.com/moby/moby/api/pkg/stdcopy"
	dockercontainer "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// End sends a signal, for example "SIGKILL", to a container's first process and waits until the container has stopped.
// It returns the exit status.
func (e *Engine) End(ctx context.Context, name, signal string) (status int64, err error) {
	wait := e.Client.ContainerWait(ctx, name, client.ContainerWaitOptions{
		Condition: dockercontainer.WaitConditionNotRunning,
	})
	if _, err := e.Client.ContainerKill(ctx, name, client.ContainerKillOptions{Signal: signal}); err != nil {
		return 0, err
	}
	select {
	case r := <-wait.Result:
		return r.StatusCode, nil
	case err := <-wait.Error:
		return 0, err
	}
}

// Log returns the last lines of a container's output, "all" for all of it. If reading fails, the error stands at its
// end.
func (e *Engine) Log(ctx context.Context, name, lines string) string {
	r, err := e.Client.ContainerLogs(ctx, name, client.ContainerLogsOptions{
		ShowStdout: true, ShowStderr: true, Tail: lines,
	})
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	defer r.Close()
	var b bytes.Buffer
	if _, err := stdcopy.StdCopy(&b, &b, r); err != nil {
		fmt.Fprintf(&b, "\n(the rest is missing: %v)", err)
	}
	return b.String()
}
