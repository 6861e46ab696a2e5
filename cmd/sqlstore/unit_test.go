package main

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
)

// A directory that is read-only for a service of systemd is named with the unit's setting.
func TestReadOnlyInUnit(t *testing.T) {
	readOnly := &os.PathError{Op: "open", Path: "/srv/d", Err: syscall.EROFS}
	t.Setenv("INVOCATION_ID", "")
	if err := inUnit(readOnly); err.Error() != readOnly.Error() {
		t.Errorf("on a terminal: %v", err)
	}
	t.Setenv("INVOCATION_ID", "0123")
	if err := inUnit(readOnly); !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "ReadWritePaths=") {
		t.Errorf("in a unit: %v", err)
	}
	if err := inUnit(os.ErrPermission); err.Error() != os.ErrPermission.Error() {
		t.Errorf("another error: %v", err)
	}
}
