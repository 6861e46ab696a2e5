package sqlstore

import "github.com/KimMachineGun/automemlimit/memlimit"

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
