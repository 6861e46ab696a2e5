package main

import "fmt"

// checkUnused refuses settings that differ from their defaults and have no effect without another one, which somebody
// forgot. Errors: [errSettings].
func (s *settings) checkUnused() error {
	b := &s.backups
	noBackups := b.to == ""
	for _, f := range []struct {
		name, needs string
		unused      bool
	}{
		{"backup-interval", "backup-to", noBackups && b.interval != backupInterval},
		{"backup-full-interval", "backup-to", noBackups && b.fullInterval != backupFullInterval},
		{"backup-keep", "backup-to", noBackups && b.keep != backupKeep},
		{"backup-recipient", "backup-to", noBackups && len(b.recipients) > 0},
		{"console-writes", "listen-console-urls", s.consoleWrites && len(s.config.ListenConsoleURLs) == 0},
	} {
		if f.unused {
			return fmt.Errorf("%w: --%s has no effect without --%s: set both, or leave it out", errSettings, f.name,
				f.needs)
		}
	}
	return nil
}
