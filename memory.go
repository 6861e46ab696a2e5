package sqlstore

import "github.com/KimMachineGun/automemlimit/memlimit"

const (
	cacheShare = 16 // of the memory that the process may use
	cacheLeast = 32 << 20
	cacheMost  = 4 << 30
)

// defaultCacheBytes is a sixteenth of the memory that the process may use, in bounds: a small machine keeps its memory,
// a large one need not read from the database what is asked for often.
func defaultCacheBytes() int64 {
	limit, _ := memlimit.FromSystem() // 0 where the system does not say
	if group, err := memlimit.FromCgroup(); err == nil && group > 0 {
		limit = min(limit, group)
	}
	return int64(min(max(limit/cacheShare, cacheLeast), cacheMost))
}
