package pagesum

/*
#include "vfs.h"
*/
import "C"

import (
	"runtime"
	"time"
)

// TimeSyncs runs f and returns when the first sync that SQLite made in it began, as a time after f began, and how long
// its syncs took, 0 if there were none. Outside TimeSyncs, syncs are not measured.
func TimeSyncs(f func()) (after, took time.Duration) {
	runtime.LockOSThread() // which measures its own syncs
	defer runtime.UnlockOSThread()
	C.syncs_measure()
	f()
	var first, all C.int64_t
	C.syncs_measured(&first, &all)
	return time.Duration(first), time.Duration(all)
}
