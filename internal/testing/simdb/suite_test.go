package simdb

import (
	"testing"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/backendtest"
)

func open(t *testing.T, c *Cluster) *Client {
	b := c.Open()
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// reopen returns a Client with the member id of an earlier one: the suite needs a stable one.
func reopen(t *testing.T, b backend.Backend) backend.Backend {
	old := b.(*Client)
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, old.cluster)
	again.number = old.number
	return again
}

func TestSuite(t *testing.T) {
	backendtest.Run(t, func(t *testing.T) backend.Backend { return open(t, New(1, nil)) },
		backendtest.Hooks{Reopen: reopen})
}

// TestShared runs the suite of what processes share on one server, and on one whose commits wait for a standby.
func TestShared(t *testing.T) {
	for name, servers := range map[string]int{"alone": 1, "with a standby": 2} {
		t.Run(name, func(t *testing.T) {
			backendtest.RunShared(t, func(t *testing.T) (a, b backend.Shared) {
				c := New(servers, nil)
				if servers > 1 {
					c.Replicate(0, 1, true, 0)
				}
				return open(t, c), open(t, c)
			}, backendtest.SharedHooks{})
		})
	}
}
