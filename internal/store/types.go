package store

import (
	"bytes"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// Row is one version of one object; see [backend.Row]. Rows handed out are shared and must not be changed.
type Row = backend.Row

// SortTarget is the field that a range is sorted by. Its values are etcd's.
type SortTarget int32

// SortOrder is the direction of sorting. Its values are etcd's.
type SortOrder int32

// The fields to sort by.
const (
	SortKey SortTarget = iota
	SortVersion
	SortCreate
	SortMod
	SortValue
)

// The directions. SortNone with a target other than the key sorts ascending.
const (
	SortNone SortOrder = iota
	SortAscend
	SortDescend
)

// RangeRequest asks for the rows of [Key, End) as they were at Revision.
type RangeRequest struct {
	// Key and End have etcd's meaning: a nil End selects exactly Key, an End of one NUL byte has no upper bound, and
	// End <= Key is empty.
	Key, End []byte
	// Limit bounds the rows returned; <= 0 means no limit.
	Limit int64
	// Revision is the revision to read at; <= 0 means the current one.
	Revision     int64
	Order        SortOrder
	Target       SortTarget
	Serializable bool
	KeysOnly     bool
	CountOnly    bool
	// KeepLease leaves the rows of KeysOnly their leases, which those of etcd's keys_only do not have.
	KeepLease bool
	// NoCount skips counting the rows beyond the limit, for callers that know the count already.
	NoCount                    bool
	MinModRev, MaxModRev       int64
	MinCreateRev, MaxCreateRev int64
	// KeepPermit leaves it to the caller to end the result's Permit, which then also covers that the caller encodes the
	// rows as one message.
	KeepPermit bool
	// Copies is how many bytes the caller needs for each byte of the result, until it has encoded it; 0 means 1.
	Copies int64
}

// PrefixEnd returns the End of the range of all keys with the prefix, in etcd's convention: the smallest key above
// them, or one NUL byte if there is none.
func PrefixEnd(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return []byte{0}
}

// RangeResult answers a RangeRequest.
type RangeResult struct {
	Rows []*Row
	// More is true if the limit cut off rows.
	More bool
	// Count is the number of keys in the range, whatever the limit and the filters. With NoCount it is the number of
	// Rows.
	Count int64
	// Revision is the store's revision when the request was served. Inside a transaction, it includes the transaction's
	// effects so far.
	Revision int64
	// Epoch is the epoch of the rows of a RangeStream.
	Epoch int64
	// Permit is for the caller to end if the request has KeepPermit set; nil if the read needed none.
	Permit *Permit
}

// PutRequest writes one key.
type PutRequest struct {
	Key, Value  []byte
	Lease       int64
	PrevKV      bool
	IgnoreValue bool // keep the value; ErrKeyNotFound if the key does not exist
	IgnoreLease bool // keep the lease; ErrKeyNotFound if the key does not exist
}

// PutResult answers a PutRequest.
type PutResult struct {
	Prev     *Row // nil if not asked for or there was none
	Revision int64
}

// DeleteRequest deletes the keys of [Key, End); see RangeRequest.
type DeleteRequest struct {
	Key, End []byte
	PrevKV   bool
}

// DeleteResult answers a DeleteRequest.
type DeleteResult struct {
	Deleted  int64
	Prev     []*Row // in key order, if asked for
	Revision int64
}

// CompareTarget is the field of a key that is compared. Its values are etcd's.
type CompareTarget int32

// CompareResult is the relation that must hold. Its values are etcd's.
type CompareResult int32

// The fields to compare.
const (
	CompareVersion CompareTarget = iota
	CompareCreate
	CompareMod
	CompareValue
	CompareLease
)

// The relations.
const (
	CompareEqual CompareResult = iota
	CompareGreater
	CompareLess
	CompareNotEqual
)

// Compare is one condition of a Txn. It must hold for every key of [Key, End).
type Compare struct {
	Key, End []byte
	Target   CompareTarget
	Result   CompareResult
	Number   int64  // for all targets except CompareValue
	Value    []byte // for CompareValue
}

// Op is one operation of a Txn: exactly one field is set.
type Op struct {
	Range  *RangeRequest
	Put    *PutRequest
	Delete *DeleteRequest
	Txn    *Txn
}

// Txn evaluates its compares and then runs one of two branches, atomically.
type Txn struct {
	Compare          []Compare
	Success, Failure []Op
	// KeepPermit and Copies have the meaning that they have in a RangeRequest.
	KeepPermit bool
	Copies     int64

	message bool // the result becomes one message, also without KeepPermit
}

// OpResult answers an Op: the field of the same kind is set.
type OpResult struct {
	Range  *RangeResult
	Put    *PutResult
	Delete *DeleteResult
	Txn    *TxnResult
}

// TxnResult answers a Txn.
type TxnResult struct {
	Succeeded bool
	Results   []OpResult
	// Revision is the store's revision after the transaction: the transaction's own if it wrote, otherwise the current
	// one.
	Revision int64
	// Permit has the meaning it has in a RangeResult.
	Permit *Permit
}

// Lease describes a granted lease.
type Lease struct {
	ID int64
	// Granted is the TTL as granted. Remaining is the time left (0 if the lease has expired but is not revoked yet).
	Granted, Remaining time.Duration
	// Revision is the revision of the store at which this holds, 0 if it was not asked for.
	Revision int64
}

// AlarmKind is the kind of an alarm. Its values are etcd's.
type AlarmKind int32

// The kinds of alarms.
const (
	AlarmNone AlarmKind = iota
	AlarmNoSpace
	AlarmCorrupt
)

// Alarm is one raised alarm.
type Alarm struct {
	Member uint64
	Kind   AlarmKind
}

// Status is what Maintenance.Status and the metrics report. Sizes are in bytes.
type Status struct {
	Revision, Compacted, Epoch  int64
	ClusterID, MemberID, Leader uint64
	DBSize, DBSizeInUse, Quota  int64
	// what the database's log takes besides DBSize, beyond its normal size
	DBLog        int64
	DBLogStalled time.Duration // how long a reader has kept the log from restarting
	DBWAL        int64         // what SQLite's log takes in all, 0 on Postgres
	OpenReads    int
	Keys         int64 // keys in the index: all live keys once it is complete
	Waiting      int   // operations in the sequencer's queue
	Alarms       []Alarm
}
