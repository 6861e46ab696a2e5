package sqlstore

import (
	"cmp"
	"os"

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
)

// defaultCacheBytes is a sixteenth of the memory available to the process, within limits: a small machine keeps its
// memory, and a large one avoids reading popular values from the database.
func defaultCacheBytes() int64 {
	limit, _ := memlimit.FromSystem() // 0 if the system reports none
	if group, err := memlimit.FromCgroup(); err == nil && group > 0 {
		limit = min(limit, group)
	}
	return int64(min(max(limit/cacheShare, cacheLeast), cacheMost))
}
