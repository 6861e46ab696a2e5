package sqlstore

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/sqlstore/sqlstore/internal/listen"
	"github.com/sqlstore/sqlstore/internal/setting"
	"github.com/sqlstore/sqlstore/status"
)

const (
	// shortest is the shortest time between two things that a server does again and again: more often, it would do
	// nothing else.
	shortest = 10 * time.Millisecond
	// shortestKeep is the shortest time for which backups are kept: with less, a point would be deleted before anybody
	// could restore it.
	shortestKeep = time.Minute
	// fewestConns is the smallest number of connections to Postgres with which a server makes progress.
	fewestConns = 4
	// mostTLSYears is the longest validity of a generated certificate, which can hold no date after the year 9999.
	mostTLSYears = 1000
)

// check refuses values that make no sense. Errors: [ErrConfig].
func (c *Config) check() error {
	for _, f := range []struct{ name, value string }{
		{setting.Name("Name"), c.Name}, {setting.Name("DataDir"), c.DataDir}, {setting.Name("AuditLog"), c.AuditLog},
	} {
		if err := notBlank(f.name, f.value); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		name  string
		value time.Duration
		least time.Duration // unless 0, the default
	}{
		{setting.Name("WatchProgressInterval"), c.WatchProgressInterval, shortest},
		{setting.Name("KeepaliveMinTime"), c.KeepaliveMinTime, 0},
		{setting.Name("KeepaliveInterval"), c.KeepaliveInterval, shortest},
		{setting.Name("KeepaliveTimeout"), c.KeepaliveTimeout, shortest},
		{setting.Name("AuthTokenTTL"), c.AuthTokenTTL, 0},
		{setting.Name("CorruptChecks.Period"), c.CorruptChecks.Period, shortest},
		{setting.Name("CorruptChecks.CompactionPeriod"), c.CorruptChecks.CompactionPeriod, shortest},
		{setting.Name("Backups.Interval"), c.Backups.Interval, shortest},
		{setting.Name("Backups.FullInterval"), c.Backups.FullInterval, shortest},
		{setting.Name("Backups.Keep"), c.Backups.Keep, shortestKeep},
	} {
		if f.value < 0 || f.value > 0 && f.value < f.least {
			return fmt.Errorf("%w: %s is %v: it must be at least %v", ErrConfig, f.name, f.value, f.least)
		}
	}
	// A negative one has a meaning of its own.
	if name, s := setting.Name("DatastoreMaxStaleness"), c.DatastoreMaxStaleness; s > 0 && s < shortest {
		return fmt.Errorf("%w: %s is %v: it must be at least %v", ErrConfig, name, s, shortest)
	}
	for _, f := range []struct {
		name  string
		value int64
		least int64
	}{
		{setting.Name("CacheBytes"), c.CacheBytes, 0},
		{setting.Name("MaxRequestBytes"), int64(c.MaxRequestBytes), 0},
		{setting.Name("MaxTxnOps"), int64(c.MaxTxnOps), 0},
		{setting.Name("AutoTLSYears"), int64(c.AutoTLSYears), 0},
		{setting.Name("DatastoreMaxConns"), int64(c.DatastoreMaxConns), fewestConns},
	} {
		if f.value < 0 || f.value > 0 && f.value < f.least {
			return fmt.Errorf("%w: %s is %d: it must be at least %d", ErrConfig, f.name, f.value, f.least)
		}
	}
	if c.AutoTLSYears > mostTLSYears {
		return fmt.Errorf("%w: %s is %d: it must be at most %d", ErrConfig, setting.Name("AutoTLSYears"),
			c.AutoTLSYears, mostTLSYears)
	}
	full := cmp.Or(c.Backups.FullInterval, defaultBackupFullInterval)
	if each := cmp.Or(c.Backups.Interval, defaultBackupInterval); full < each {
		return fmt.Errorf("%w: %s is %v: it must be at least %v, which is %s", ErrConfig,
			setting.Name("Backups.FullInterval"), full, each, setting.Name("Backups.Interval"))
	}
	if err := listen.Files(c.TLS).CheckVersions(); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if err := listen.CheckOrigins(c.CORS); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrConfig, setting.Name("CORS"), err)
	}
	if err := listen.CheckHosts(c.HostWhitelist); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrConfig, setting.Name("HostWhitelist"), err)
	}
	if err := listen.CheckAdvertised(c.AdvertiseClientURLs); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if err := checkAcknowledged(c.AcknowledgedConditions); err != nil {
		return err
	}
	if err := c.checkConsole(); err != nil {
		return err
	}
	return c.Compaction.Check()
}

// notBlank refuses a value of only white space, which somebody forgot to fill in. Errors: [ErrConfig].
func notBlank(name, value string) error {
	if value != "" && strings.TrimSpace(value) == "" {
		return fmt.Errorf("%w: %s has only white space: give a value, or leave it out to get the default", ErrConfig,
			name)
	}
	return nil
}

// checkAcknowledged refuses types that cannot be acknowledged. Errors: [ErrConfig].
func checkAcknowledged(types []string) error {
	if err := status.CheckAcknowledged(types); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrConfig, setting.Name("AcknowledgedConditions"), err)
	}
	return nil
}
