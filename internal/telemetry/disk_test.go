package telemetry_test

import (
	"errors"
	"math"
	"testing"

	"github.com/sqlstore/sqlstore/internal/telemetry"
)

// Free space that cannot be read does not look like a full disk.
func TestFreeDisk(t *testing.T) {
	m := telemetry.New(telemetry.Config{})
	free, failure := int64(5<<30), error(nil)
	m.WatchFreeDisk(func() (int64, error) { return free, failure })
	if got := value(t, m, "sqlstore_disk_free_bytes"); got != 5<<30 {
		t.Errorf("%v bytes are free, want 5 GiB", got)
	}
	free, failure = 0, errors.New("the file system does not answer")
	if got := value(t, m, "sqlstore_disk_free_bytes"); !math.IsNaN(got) {
		t.Errorf("%v bytes are free, want NaN", got)
	}
}
