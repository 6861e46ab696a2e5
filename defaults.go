package sqlstore

import (
	"cmp"
	"math"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/sqlstore/sqlstore/backend/postgres"
	"github.com/sqlstore/sqlstore/internal/store"
)

// WithDefaults returns c with the values that [Start] gives to unset fields, as far as they depend on the machine or on
// other fields: Name, QuotaBytes, CacheBytes and DatastoreMaxConns, which stays unset for a malformed Datastore.
func (c *Config) WithDefaults() Config {
	d := *c
	d.Name, d.QuotaBytes = c.memberName(), c.quota(c.QuotaBytes)
	if d.CacheBytes == 0 {
		d.CacheBytes = defaultCacheBytes()
	}
	if c.OnPostgres() && d.DatastoreMaxConns == 0 {
		d.DatastoreMaxConns, _ = postgres.Connections(c.postgres())
	}
	return d
}

// memberName returns the name of the member, or its default.
func (c *Config) memberName() string {
	if c.Name == "" && c.OnPostgres() {
		host, _ := os.Hostname()
		return cmp.Or(host, "default")
	}
	return cmp.Or(c.Name, "default")
}

// quota converts QuotaBytes to the store's form. A Postgres database has its own operators and limits.
func (c *Config) quota(bytes int64) int64 {
	switch {
	case bytes != 0:
		return bytes
	case c.OnPostgres():
		return -1
	}
	return store.DefaultQuotaBytes
}

const (
	cacheShare = 16 // of the memory available to the process
	cacheLeast = 32 << 20
	cacheMost  = 4 << 30

	resultShare = 8 // likewise: Go's heap may need twice as much for them, and the values come from SQLite's memory
	resultLeast = 16 << 20

	queueShare = 16
	queueLeast = store.DefaultQueueBytes
	queueMost  = 1 << 30
)

// defaultCacheBytes is a sixteenth of the memory available to the process, within limits: a small machine keeps its
// memory, and a large one avoids reading popular values from the database.
func defaultCacheBytes() int64 { return min(max(availableMemory()/cacheShare, cacheLeast), cacheMost) }

// resultBytes is an eighth of that memory, up to the store's default.
func resultBytes() int64 {
	return min(max(availableMemory()/resultShare, resultLeast), store.DefaultResultBytes)
}

// queueBytes is a sixteenth of that memory, within limits: a burst of large writes waits instead of being refused.
func queueBytes() int64 { return min(max(availableMemory()/queueShare, queueLeast), queueMost) }

// availableMemory returns the memory available to the process, in bytes: that of the machine, of its cgroup, or Go's
// limit (GOMEMLIMIT), whichever is least. It is 0 if the system reports none.
func availableMemory() int64 {
	limit, _ := memlimit.FromSystem()
	if group, err := memlimit.FromCgroup(); err == nil && group > 0 {
		limit = min(limit, group)
	}
	return min(int64(min(limit, math.MaxInt64)), debug.SetMemoryLimit(-1))
}
