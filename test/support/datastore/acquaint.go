package datastore

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
)

// acquaintTimeout is many times the second in which replicas discover each other.
const acquaintTimeout = 30 * time.Second

// acquaint waits until each replica lists all of them: a ready replica discovers those that started with it at its next
// heartbeat.
func acquaint(tb testing.TB, servers []*launch.Server) {
	tb.Helper()
	client := &http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.After(acquaintTimeout)
	for _, s := range servers {
		for {
			n, err := members(client, s.ClientURL())
			if n >= len(servers) {
				break
			}
			select {
			case <-tick.C:
			case <-end:
				tb.Fatalf("datastore: a replica knows %d replicas, not %d (%v)", n, len(servers), err)
			}
		}
	}
}

// members returns the number of members that a replica lists.
func members(client *http.Client, url string) (int, error) {
	resp, err := client.Get(url + "/status")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var status struct {
		Members int `json:"members"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		return 0, fmt.Errorf("%s: %w", resp.Status, err)
	}
	return status.Members, nil
}
