// Package show writes keys, leases and numbers of things for people.
package show

import (
	"fmt"
	"strings"
)

// Key returns a key for a table: what is no readable text in quotes.
func Key(key string) string {
	if quoted := fmt.Sprintf("%q", key); strings.Contains(quoted, `\`) || key == "" {
		return quoted
	}
	return key
}

// Lease returns a lease as etcdctl names it, "-" for none.
func Lease(id int64) string {
	if id == 0 {
		return "-"
	}
	return fmt.Sprintf("%016x", uint64(id))
}

// Number returns a number of things, such as "1 key" or "2 keys".
func Number[N int | int64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
