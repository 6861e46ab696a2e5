package launch

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// waitReady polls url until it answers 200, exited is closed, or the timeout has passed.
func waitReady(url string, exited <-chan struct{}, timeout time.Duration) error {
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	deadline := time.After(timeout)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		resp, err := client.Get(url)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(resp.Status)
		}
		last = err
		select {
		case <-exited:
			return errors.New("the process exited before it was ready")
		case <-deadline:
			return fmt.Errorf("not ready within %s: %w", timeout, last)
		case <-tick.C:
		}
	}
}
