package cluster

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"
)

// waitReady polls until check succeeds; the test fails if p ends first or the timeout has passed.
func waitReady(tb testing.TB, p *process, timeout time.Duration, check func() error) {
	tb.Helper()
	deadline := time.After(timeout)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-p.done:
			tb.Fatalf("%s exited before it was ready", p.cmd.Path)
		case <-deadline:
			tb.Fatalf("%s not ready within %s: %v", p.cmd.Path, timeout, err)
		case <-tick.C:
		}
	}
}

// ok converts an answer other than 200 to an error with the answer's body.
func ok(resp *http.Response, err error) error {
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return errors.Join(fmt.Errorf("%s: %s", resp.Status, body), err)
	}
	return err
}
