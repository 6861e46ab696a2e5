//go:build !linux

package sqlite

import "os"

// beginWriteBack does nothing on this system: only Linux supports it, and elsewhere the kernel decides when to write.
func beginWriteBack(*os.File) {}
