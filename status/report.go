package status

import (
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// Report is the state of a server, and the JSON answer of /status. Revisions and members are current; they are 0 and ""
// until the database is open.
type Report struct {
	// Name is the name of the member, Version that of sqlstore, EtcdVersion that of the etcd API.
	Name        string `json:"name"`
	Version     string `json:"version"`
	EtcdVersion string `json:"etcdVersion"`
	// Time is the server's clock, for the age of a condition.
	Time time.Time `json:"time"`
	// Generation is the newest generation of the configuration: 1 at the start, plus one for each reload, even if
	// refused.
	Generation int64       `json:"generation"`
	Conditions []Condition `json:"conditions"`

	// Datastore names the database, without secrets.
	Datastore string `json:"datastore"`
	// Revision is the last one published on this server, Compacted the oldest that can be read.
	Revision  int64 `json:"revision"`
	Compacted int64 `json:"compacted"`
	// Member and Leader are ids in hexadecimal, as etcd writes them. Leader is the replica that holds the maintenance
	// lease; Members counts the live replicas.
	Member  string `json:"member"`
	Leader  string `json:"leader"`
	Members int    `json:"members"`
	// Replicas are the live replicas over Postgres, in order of their ids, including this one; empty on SQLite.
	Replicas []Replica `json:"replicas,omitempty"`
	// LagSeconds is the age of the latest moment before which every commit of any replica is known to be published on
	// this server: about 1 at most in normal operation, 0 on SQLite.
	LagSeconds float64 `json:"lagSeconds"`
	// AuthEnabled reports whether authentication is enabled, so that callers need users.
	AuthEnabled bool `json:"authEnabled"`
	// Alarms are the raised alarms, of all replicas.
	Alarms []Alarm `json:"alarms,omitempty"`
	// Certificates are those in use, empty without TLS.
	Certificates []Certificate `json:"certificates,omitempty"`
	// Compaction is the state of the compactor, nil until it runs.
	Compaction *Compaction `json:"compaction,omitempty"`
	// Backup is nil without continuous backups, and until they run.
	Backup *Backup `json:"backup,omitempty"`
	// Size is nil until the database is open, and while it does not answer.
	Size *Size `json:"size,omitempty"`
	// LastError is the last commit or heartbeat that failed since the start, nil if none has.
	LastError *DatabaseError `json:"lastError,omitempty"`
}

// Replica is a live replica. Its ID is in hexadecimal.
type Replica struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Alarm is a raised alarm: its type, NOSPACE or CORRUPT, or the number of another one, and the id, in hexadecimal, of
// the member for which it is raised.
type Alarm struct {
	Type   string `json:"type"`
	Member string `json:"member"`
}

// Certificate is a file that is in use, the server's own certificate or the authority of its clients, and when it
// expires.
type Certificate struct {
	File    string    `json:"file"`
	Expires time.Time `json:"expires"`
}

// Compaction is the state of the compactor on one server.
type Compaction struct {
	// Mode is periodic, revision or off. Retention is the history to keep, in the unit of the mode.
	Mode      string `json:"mode"`
	Retention string `json:"retention,omitempty"`
	// Leads reports that this server compacts and deletes.
	Leads bool `json:"leads"`
	// Compacted is the oldest readable revision. Purged is the revision up to which superseded rows are deleted, or -1
	// if this server does not know.
	Compacted int64 `json:"compacted"`
	Purged    int64 `json:"purged"`
	// Last is when this server last compacted automatically, Next when it plans to do so again.
	Last time.Time `json:"last,omitzero"`
	Next time.Time `json:"next,omitzero"`
	// Stalled is one CamelCase word for what is in the way, "" if nothing is, StalledSince since when. The condition
	// CompactionStalled has a message.
	Stalled      string    `json:"stalled,omitempty"`
	StalledSince time.Time `json:"stalledSince,omitzero"`
}

// Backup is the state of the continuous backups on one server.
type Backup struct {
	// Destination is the name of the backup's destination, without secrets.
	Destination string `json:"destination"`
	// Leads reports that this server makes them. The rest is known only there.
	Leads bool `json:"leads"`
	// Saved is when everything committed was last saved, up to Revision.
	Saved    time.Time `json:"saved,omitzero"`
	Revision int64     `json:"revision,omitempty"`
}

// String returns the state in one line.
func (b *Backup) String() string {
	switch {
	case !b.Leads:
		return b.Destination + ", by another replica"
	case b.Saved.IsZero():
		return b.Destination + ", nothing saved yet"
	}
	return fmt.Sprintf("%s, saved up to revision %d at %s", b.Destination, b.Revision, b.Saved.Format(time.RFC3339))
}

// Size is the space that a database takes, in bytes.
type Size struct {
	// Total is what it takes on disk, of which InUse is not free for reuse.
	Total int64 `json:"total"`
	InUse int64 `json:"inUse"`
	// Quota is the size that raises the NOSPACE alarm, 0 if none does.
	Quota int64 `json:"quota"`
	// FreeDisk is what the disk of a SQLite database has left, nil on Postgres, and if it is not known.
	FreeDisk *int64 `json:"freeDisk,omitempty"`
	// WAL is what the write-ahead log of a SQLite database takes besides Total, 0 on Postgres.
	WAL int64 `json:"wal"`
	// Keys is the number of keys.
	Keys int64 `json:"keys"`
}

// String returns the sizes for people.
func (s *Size) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s (%s in use", humanize.IBytes(uint64(s.Total)), humanize.IBytes(uint64(s.InUse)))
	if s.Quota > 0 {
		fmt.Fprintf(&out, ", quota %s", humanize.IBytes(uint64(s.Quota)))
	}
	fmt.Fprintf(&out, "), %s keys", humanize.Comma(s.Keys))
	if s.FreeDisk != nil {
		fmt.Fprintf(&out, ", %s free on the disk", humanize.IBytes(uint64(*s.FreeDisk)))
	}
	return out.String()
}

// DatabaseError is an error of the database, and when it happened.
type DatabaseError struct {
	Time    time.Time `json:"time"`
	Message string    `json:"message"`
}

// String returns the state in one line.
func (c *Compaction) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "mode=%s", c.Mode)
	if c.Retention != "" {
		fmt.Fprintf(&out, " retention=%s", c.Retention)
	}
	fmt.Fprintf(&out, " leads=%t compacted=%d", c.Leads, c.Compacted)
	if c.Purged >= 0 {
		fmt.Fprintf(&out, " purged=%d", c.Purged)
	}
	if !c.Last.IsZero() {
		fmt.Fprintf(&out, " last=%s", c.Last.Format(time.RFC3339))
	}
	if !c.Next.IsZero() {
		fmt.Fprintf(&out, " next=%s", c.Next.Format(time.RFC3339))
	}
	if c.Stalled != "" {
		fmt.Fprintf(&out, " stalled=%s since=%s", c.Stalled, c.StalledSince.Format(time.RFC3339))
	}
	return out.String()
}
