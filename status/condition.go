package status

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// The statuses, as Kubernetes spells them.
const (
	True    = "True"
	False   = "False"
	Unknown = "Unknown"
)

// The positive summary conditions.
const (
	// Accepted: the configuration is valid.
	Accepted = "Accepted"
	// ResolvedRefs: the files, secrets and database that the configuration names exist.
	ResolvedRefs = "ResolvedRefs"
	// Programmed: the schema is migrated, and listeners and compactor are set up.
	Programmed = "Programmed"
	// Ready: the server serves reads and writes.
	Ready = "Ready"
)

// The negative conditions.
const (
	// DatabaseUnavailable: the database does not answer, or accepts no writes.
	DatabaseUnavailable = "DatabaseUnavailable"
	// NotDurable: the database may lose acknowledged writes in a crash, so this server writes nothing to it.
	NotDurable = "NotDurable"
	// ConnectionsRefused: the database server allows fewer connections than this server needs.
	ConnectionsRefused = "ConnectionsRefused"
	// NoSpace: the database has reached its quota, or the disk is full.
	NoSpace = "NoSpace"
	// Corrupt: the CORRUPT alarm is raised.
	Corrupt = "Corrupt"
	// NoPageChecksums: the database server does not notice damage to its files.
	NoPageChecksums = "NoPageChecksums"
	// CompactionStalled: compaction, or the deletion of compacted rows, makes no progress.
	CompactionStalled = "CompactionStalled"
	// CheckpointStalled: the write-ahead log of a SQLite database grows, because somebody's transaction prevents its
	// checkpoint.
	CheckpointStalled = "CheckpointStalled"
	// WatchLagging: watches have not received commits from seconds ago.
	WatchLagging = "WatchLagging"
	// CertificateExpiring: the server's certificate, or the clients' authority, expires soon or has expired.
	CertificateExpiring = "CertificateExpiring"
	// AuditLogFailing: the audit log does not have everything that it should have.
	AuditLogFailing = "AuditLogFailing"
	// BackupStale: the backups do not have everything that was committed until moments ago.
	BackupStale = "BackupStale"
)

// Positive and Negative are all types, in the order of the report.
var (
	Positive = []string{Accepted, ResolvedRefs, Programmed, Ready}
	Negative = []string{
		DatabaseUnavailable, ConnectionsRefused, NotDurable, NoSpace, Corrupt, NoPageChecksums, CompactionStalled,
		CheckpointStalled, WatchLagging, CertificateExpiring, AuditLogFailing, BackupStale,
	}
)

// Condition is one condition of a server, with the fields and the JSON of metav1.Condition.
type Condition struct {
	Type string `json:"type"`
	// Status is True, False or Unknown.
	Status string `json:"status"`
	// ObservedGeneration is the generation of the configuration that the condition describes: the newest one for
	// Accepted, the one in force for all others.
	ObservedGeneration int64 `json:"observedGeneration"`
	// LastTransitionTime is when Status last changed, in whole seconds.
	LastTransitionTime time.Time `json:"lastTransitionTime"`
	// Reason is one CamelCase word, for programs.
	Reason string `json:"reason"`
	// Message tells an operator what the condition means and what to do about it.
	Message string `json:"message"`
	// Acknowledged reports that the operator knows of the condition, which is therefore no cause for alarm.
	Acknowledged bool `json:"acknowledged,omitempty"`
}

// Good reports whether c has the status of a healthy server.
func (c *Condition) Good() bool {
	return (c.Status == True) != slices.Contains(Negative, c.Type)
}

// Mark is how c appears in lists: "+" if it is good, "~" if it is not but acknowledged, "-" otherwise.
func (c *Condition) Mark() string {
	switch {
	case c.Good():
		return "+"
	case c.Acknowledged:
		return "~"
	}
	return "-"
}

// Acknowledgeable are the types that an operator may acknowledge: the server serves reads and writes meanwhile.
var Acknowledgeable = []string{
	ConnectionsRefused, NoPageChecksums, CompactionStalled, CheckpointStalled, WatchLagging, CertificateExpiring,
	AuditLogFailing, BackupStale,
}

// CheckAcknowledged returns an error if one of the types cannot be acknowledged.
func CheckAcknowledged(types []string) error {
	for _, kind := range types {
		switch {
		case slices.Contains(Acknowledgeable, kind):
		case slices.Contains(Negative, kind), slices.Contains(Positive, kind):
			return fmt.Errorf("%s cannot be acknowledged, because the server does not serve clients as it should "+
				"meanwhile: name some of %s", kind, strings.Join(Acknowledgeable, ", "))
		default:
			return fmt.Errorf("%q is not a condition: name some of %s", kind, strings.Join(Acknowledgeable, ", "))
		}
	}
	return nil
}

// Find returns the condition of a type, or nil if there is none.
func Find(all []Condition, kind string) *Condition {
	for i := range all {
		if all[i].Type == kind {
			return &all[i]
		}
	}
	return nil
}

// IsTrue reports whether the condition of a type is present and True.
func IsTrue(all []Condition, kind string) bool {
	c := Find(all, kind)
	return c != nil && c.Status == True
}
