package telemetry

import (
	"context"
	"strings"
	"sync"

	"google.golang.org/grpc/metadata"
)

const (
	// maxVersions limits the client versions that one process distinguishes, maxVersion the length of one. Clients
	// choose both, and a label lives as long as the process.
	maxVersions = 32
	maxVersion  = 32
)

// clients are the client versions seen so far.
type clients struct {
	mu       sync.Mutex
	versions map[string]struct{}
}

// version returns the version that a client claims for its library: "unknown" if it claims nothing plausible, "other"
// if too many have been seen before.
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

// isVersion accepts the characters of a semantic version.
func isVersion(s string) bool {
	return s != "" && len(s) <= maxVersion && strings.IndexFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune(".-+_", r)
	}) < 0
}
