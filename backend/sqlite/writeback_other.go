//go:build !linux

package sqlite

import "github.com/sqlstore/sqlstore/backend/sqlite/internal/pagesum"

// beginWriteBack does nothing on this system: only Linux supports it, and elsewhere the kernel decides when to write.
func beginWriteBack(*pagesum.File) {}
