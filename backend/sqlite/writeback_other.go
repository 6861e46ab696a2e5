//go:build !linux

package sqlite

import "os"

// beginWriteBack is for Linux only: elsewhere the kernel decides when to write.
func beginWriteBack(*os.File) {}
