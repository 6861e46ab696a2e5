package conditions

import (
	"slices"
	"time"
)

// Status says whether a condition holds.
type Status string

// The statuses, as Kubernetes spells them.
const (
	True    Status = "True"
	False   Status = "False"
	Unknown Status = "Unknown"
)

// The positive summary conditions.
const (
	// Accepted: the configuration is valid.
	Accepted = "Accepted"
	// ResolvedRefs: the files, secrets and the database that the configuration names were found.
	ResolvedRefs = "ResolvedRefs"
	// Programmed: the schema is migrated, listeners and compactor are set up.
	Programmed = "Programmed"
	// Ready: reads and writes are served now.
	Ready = "Ready"
)

// The negative conditions.
const (
	// DatabaseUnavailable: the database does not answer, or takes no writes.
	DatabaseUnavailable = "DatabaseUnavailable"
	// NotDurable: the database may lose by a crash what it acknowledges, and takes no writes of this server.
	NotDurable = "NotDurable"
	// NoSpace: the database has reached its quota, or the disk is full.
	NoSpace = "NoSpace"
	// Corrupt: the CORRUPT alarm is raised.
	Corrupt = "Corrupt"
	// CompactionStalled: history is not compacted, or what is compacted not deleted, as it should be.
	CompactionStalled = "CompactionStalled"
	// CheckpointStalled: the log of a SQLite database grows, as somebody's transaction keeps it from being copied into
	// the database.
	CheckpointStalled = "CheckpointStalled"
	// WatchLagging: watches have not got what was committed seconds ago.
	WatchLagging = "WatchLagging"
	// CertificateExpiring: the server's certificate, or the authority of the clients', is near its end or past it.
	CertificateExpiring = "CertificateExpiring"
)

// Positive and Negative are all types, in the order in which they are told.
var (
	Positive = []string{Accepted, ResolvedRefs, Programmed, Ready}
	Negative = []string{DatabaseUnavailable, NotDurable, NoSpace, Corrupt, CompactionStalled, CheckpointStalled, WatchLagging, CertificateExpiring}
)

// Condition is one, with the fields and the JSON of metav1.Condition.
type Condition struct {
	Type   string `json:"type"`
	Status Status `json:"status"`
	// ObservedGeneration is the generation of the configuration that the condition speaks of.
	ObservedGeneration int64 `json:"observedGeneration"`
	// LastTransitionTime is when Status became what it is, in whole seconds.
	LastTransitionTime time.Time `json:"lastTransitionTime"`
	// Reason is one word in CamelCase, for programs.
	Reason string `json:"reason"`
	// Message tells an operator what it is, and what to do about it.
	Message string `json:"message"`
}

// Good says whether c is as it is in a server that is well.
func (c *Condition) Good() bool {
	return (c.Status == True) != slices.Contains(Negative, c.Type)
}

// Find returns the condition of a type, nil when there is none.
func Find(all []Condition, kind string) *Condition {
	for i := range all {
		if all[i].Type == kind {
			return &all[i]
		}
	}
	return nil
}

// IsTrue says whether the condition of a type is there and True.
func IsTrue(all []Condition, kind string) bool {
	c := Find(all, kind)
	return c != nil && c.Status == True
}
