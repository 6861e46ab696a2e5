package postgres

import (
	"fmt"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/setting"
)

// weakSettings are the settings that, when off, let a crash of the server lose or damage acknowledged data.
var weakSettings = []string{"fsync", "full_page_writes", "synchronous_commit"}

// weakOf is a column that lists which of them are off. It is read on each new connection and with each heartbeat: the
// primary may be a different server than at startup, and the settings can change while it runs.
const weakOf = "concat_ws(', ', CASE WHEN current_setting('fsync', true) = 'off' THEN 'fsync=off' END, " +
	"CASE WHEN current_setting('full_page_writes', true) = 'off' THEN 'full_page_writes=off' END, " +
	"CASE WHEN current_setting('synchronous_commit', true) = 'off' THEN 'synchronous_commit=off' END)"

// NotDurable implements [backend.Durability]. It returns the server settings because of which writes are refused, or ""
// when the server keeps what it acknowledges.
func (b *Backend) NotDurable() string {
	if weak := b.weak.Load(); weak != nil && !b.cfg.UnsafeNoFsync {
		return *weak
	}
	return ""
}

// noteWeak records a server's answer to weakOf.
func (b *Backend) noteWeak(weak string) {
	old := b.weak.Swap(&weak)
	switch {
	case b.cfg.UnsafeNoFsync, old == nil, *old == weak: // at startup, checkServer refuses it
	case weak == "":
		b.log.Info("the database server keeps what it acknowledges again, and writes go on")
	default:
		b.log.Error("the database server may lose acknowledged writes when it crashes, and nothing is written to it: "+
			"turn the settings on, or restart with "+setting.Name("UnsafeNoFsync"), "settings", weak)
	}
}

// durable returns an error if the server may lose acknowledged writes.
func (b *Backend) durable() error {
	if weak := b.NotDurable(); weak != "" {
		return fmt.Errorf("%w: the server has %s and may lose acknowledged writes when it crashes",
			backend.ErrUnavailable, weak)
	}
	return nil
}
