package hosts

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	dockercontainer "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go/exec"
)

// logPoll is the time between two reads of a log.
const logPoll = 20 * time.Millisecond

// Signal sends a signal to the host's first process: STOP and CONT freeze and thaw it.
func (h *Host) Signal(name string) error {
	return h.Step("send "+name+" to", func(ctx context.Context) error {
		_, err := h.engine.Client.ContainerKill(ctx, h.id, client.ContainerKillOptions{Signal: "SIG" + name})
		return err
	})
}

// End sends a signal and waits until the host is down: KILL ends all its processes as a power cut would, and files on
// disk stay. It returns the exit status.
func (h *Host) End(signal string) (status int64, err error) {
	err = h.Step("end", func(ctx context.Context) error {
		status, err = h.engine.End(ctx, h.id, "SIG"+signal)
		return err
	})
	return status, err
}

// Wait waits until the host is down by itself, and returns the exit status.
func (h *Host) Wait() (status int64, err error) {
	err = h.Step("wait for", func(ctx context.Context) error {
		wait := h.engine.Client.ContainerWait(ctx, h.id, client.ContainerWaitOptions{
			Condition: dockercontainer.WaitConditionNotRunning,
		})
		select {
		case r := <-wait.Result:
			status = r.StatusCode
			return nil
		case err := <-wait.Error:
			return err
		}
	})
	return status, err
}

// Start starts a host that is down.
func (h *Host) Start() error {
	return h.Step("start", func(ctx context.Context) error {
		_, err := h.engine.Client.ContainerStart(ctx, h.id, client.ContainerStartOptions{})
		return err
	})
}

// Pause freezes all processes of the host: its connections stay, and nothing answers.
func (h *Host) Pause() error {
	return h.Step("pause", func(ctx context.Context) error { return h.engine.Pause(ctx, h.id) })
}

// Unpause resumes a paused host.
func (h *Host) Unpause() error {
	return h.Step("unpause", func(ctx context.Context) error {
		_, err := h.engine.Client.ContainerUnpause(ctx, h.id, client.ContainerUnpauseOptions{})
		return err
	})
}

// CutOff disconnects the host from its network, as if its cable were unplugged: packets from it and to it are lost, but
// no connection is closed.
func (h *Host) CutOff() error {
	return h.Step("cut off", func(ctx context.Context) error { return h.network.disconnect(ctx, h) })
}

// Rejoin reconnects a host that is cut off, with the same address.
func (h *Host) Rejoin() error {
	return h.Step("rejoin", func(ctx context.Context) error { return h.network.connect(ctx, h) })
}

// Run runs a shell command on the host and returns its output, standard error included.
func (h *Host) Run(command string) (out string, err error) {
	return h.run(context.Background(), command)
}

// RunAsRoot is [Host.Run] as the host's root.
func (h *Host) RunAsRoot(command string) (out string, err error) {
	return h.run(context.Background(), command, exec.WithUser("root"))
}

// RunLong is [Host.Run] for a command that may take as long as ctx allows.
func (h *Host) RunLong(ctx context.Context, command string) (out string, err error) {
	return h.run(ctx, command)
}

func (h *Host) run(ctx context.Context, command string, opts ...exec.ProcessOption) (out string, err error) {
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, stepTimeout)
		defer cancel()
	}
	fail := func(err error) (string, error) {
		return out, fmt.Errorf("run '%s' on %s: %w", command, h.Name, err)
	}
	status, r, err := h.container.Exec(ctx, []string{"bash", "-c", command}, append(opts, exec.Multiplexed())...)
	if err != nil {
		return fail(err)
	}
	b, err := io.ReadAll(r)
	out = strings.TrimSpace(string(b))
	if err == nil && status != 0 {
		err = fmt.Errorf("status %d: %s", status, out)
	}
	if err != nil {
		return fail(err)
	}
	return out, nil
}

// Write writes a file, also on a host that is down.
func (h *Host) Write(path string, content []byte, mode int64) error {
	return h.Step("write "+path+" on", func(ctx context.Context) error {
		return h.container.CopyToContainer(ctx, content, path, mode)
	})
}

// Log returns the last lines of the output of the host's processes, "all" for all of it.
func (h *Host) Log(lines string) string {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	return h.engine.Log(ctx, h.id, lines)
}

// WaitLog waits until the log contains a text: the engine passes it on with a delay.
func (h *Host) WaitLog(text string) error {
	return h.Step("read the log of", func(ctx context.Context) error {
		for !strings.Contains(h.Log("all"), text) {
			select {
			case <-ctx.Done():
				return fmt.Errorf("it does not contain %q: %w", text, ctx.Err())
			case <-time.After(logPoll):
			}
		}
		return nil
	})
}
