package telemetry

import (
	"context"
	"strings"
	"sync"

	"google.golang.org/grpc/metadata"
)

const (
	// maxVersions bounds the client versions told apart in one process, maxVersion the length of one: both are the
	// clients' choice, and a label lives as long as the process.
	maxVersions = 32
	maxVersion  = 32
)

// clients are the versions of clients that have been seen.
type clients struct {
	mu       sync.Mutex
	versions map[string]struct{}
}

// version is what a client says of the version of its library: "unknown" if it says nothing that could be one, "other"
// when too many have been seen before.
func (c *clients) version(ctx context.Context) string {
	said := metadata.ValueFromIncomingContext(ctx, "client-api-version")
	if len(said) == 0 || !isVersion(said[0]) {
		return "unknown"
	}
	v := said[0]
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.versions[v]; known {
		return v
	}
	if len(c.versions) >= maxVersions {
		return "other"
	}
	c.versions[v] = struct{}{}
	return v
}

// isVersion accepts what a semantic version may consist of.
func isVersion(s string) bool {
	return s != "" && len(s) <= maxVersion && strings.IndexFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune(".-+_", r)
	}) < 0
}
