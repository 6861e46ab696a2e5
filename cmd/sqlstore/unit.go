package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// inUnit says what to do if a service of systemd may not write where it has to: the file system is read-only only for
// the service.
func inUnit(err error) error {
	if !errors.Is(err, syscall.EROFS) || os.Getenv("INVOCATION_ID") == "" {
		return err
	}
	return fmt.Errorf("%w: if the unit makes it so with ProtectSystem=, add the directory to ReadWritePaths= in a "+
		"drop-in (systemctl edit)", err)
}
