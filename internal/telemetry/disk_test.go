package telemetry_test

import (
	"errors"
	"testing"

	"github.com/sqlstore/sqlstore/internal/telemetry"
)

// Free space that cannot be read has no sample: 0 would be a full disk, and NaN would spoil trends.
func TestFreeDisk(t *testing.T) {
	m := telemetry.New(telemetry.Config{})
	free, failure := int64(5<<30), error(nil)
	m.WatchFreeDisk(func() (int64, error) { return free, failure })
	if got := value(t, m, "sqlstore_disk_free_bytes"); got != 5<<30 {
		t.Errorf("%v bytes are free, want 5 GiB", got)
	}
	free, failure = 0, errors.New("the file system does not answer")
	if family := gather(t, m)["sqlstore_disk_free_bytes"]; family != nil {
		t.Errorf("%v, want no sample", family)
	}
	free, failure = 4<<30, nil
	if got := value(t, m, "sqlstore_disk_free_bytes"); got != 4<<30 {
		t.Errorf("%v bytes are free, want 4 GiB", got)
	}
}
