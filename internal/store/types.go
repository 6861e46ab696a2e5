package store

import (
	"bytes"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// Row is one version of one object; see [backend.Row]. Rows handed out are shared and must not be changed.
type Row = backend.Row

// SortTarget is what a range is sorted by; it has etcd's numbers.
type SortTarget int32

// SortOrder is the direction of sorting; it has etcd's numbers.
type SortOrder int32

// What to sort by.
const (
	SortKey SortTarget = iota
	SortVersion
	SortCreate
	SortMod
	SortValue
)

// The directions; SortNone with a target other than the key sorts ascending.
const (
	SortNone SortOrder = iota
	SortAscend
	SortDescend
)

// RangeRequest asks for the rows of [Key, End) as they were at Revision.
type RangeRequest struct {
	// Key and End have etcd's meaning: a nil End is exactly Key, an End of one NUL byte has no upper bound, End <= Key
	// is empty.
	Key, End []byte
	// Limit bounds the rows returned; <= 0 means no limit.
	Limit int64
	// Revision pins the read; <= 0 means the current one.
	Revision     int64
	Order        SortOrder
	Target       SortTarget
	Serializable bool
	KeysOnly     bool
	CountOnly    bool
	// NoCount leaves the rows behind a limit uncounted: who knows how many there are need not have them counted again.
	NoCount                    bool
	MinModRev, MaxModRev       int64
	MinCreateRev, MaxCreateRev int64
	// KeepTurn leaves it to the caller to end the result's Turn, so that what it does with many rows counts, too.
	KeepTurn bool
}

// PrefixEnd returns the End of the range of all keys that begin with prefix, in etcd's convention: the least key above
// them, or one NUL byte when there is none.
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
	// More says that the limit cut rows off.
	More bool
	// Count is that of all keys in the range, whatever limit and filters; with NoCount that of the rows.
	Count int64
	// Revision is the store's when the request was served (inside a transaction: that of its effects so far).
	Revision int64
	// Epoch is the one that the rows of a RangeStream belong to.
	Epoch int64
	// Turn is for the caller to end when the request kept it; nil where the read needed none.
	Turn *Turn
}

// PutRequest writes one key.
type PutRequest struct {
	Key, Value  []byte
	Lease       int64
	PrevKV      bool
	IgnoreValue bool // keep the value; ErrKeyNotFound when there is none
	IgnoreLease bool // keep the lease; ErrKeyNotFound when there is none
}

// PutResult answers a PutRequest.
type PutResult struct {
	Prev     *Row // nil when not asked for or there was none
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
	Prev     []*Row // in key order, when asked for
	Revision int64
}

// CompareTarget is what of a key is compared; it has etcd's numbers.
type CompareTarget int32

// CompareResult is the relation that has to hold; it has etcd's numbers.
type CompareResult int32

// What to compare.
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

// Compare is one condition of a Txn; it must hold for every key of [Key, End).
type Compare struct {
	Key, End []byte
	Target   CompareTarget
	Result   CompareResult
	Number   int64  // for all targets but the value
	Value    []byte // for CompareValue
}

// Op is one operation of a Txn: exactly one field is set.
type Op struct {
	Range  *RangeRequest
	Put    *PutRequest
	Delete *DeleteRequest
	Txn    *Txn
}

// Txn compares and then runs one of two branches, atomically.
type Txn struct {
	Compare          []Compare
	Success, Failure []Op
	// KeepTurn is that of a RangeRequest.
	KeepTurn bool
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
	// Revision is the store's after the transaction: its own when it wrote, else the current one.
	Revision int64
	// Turn is that of a RangeResult.
	Turn *Turn
}

// Lease describes a granted lease.
type Lease struct {
	ID int64
	// Granted is the TTL as granted, Remaining what is left of it (0 when expired but not yet revoked).
	Granted, Remaining time.Duration
	// Revision is that of the store for which this holds, 0 where nobody asks.
	Revision int64
}

// AlarmKind has etcd's numbers.
type AlarmKind int32

// The alarms.
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

// Status is what Maintenance.Status and the metrics need.
type Status struct {
	Revision, Compacted, Epoch  int64
	ClusterID, MemberID, Leader uint64
	DBSize, DBSizeInUse, Quota  int64
	// what the database's log takes beside DBSize, over what it takes when all is well
	DBLog        int64
	DBLogStalled time.Duration // for how long a reader has kept it from beginning anew
	OpenReads    int
	Keys         int64 // in the index: all live keys once it is complete
	Waiting      int   // operations in the sequencer's queue
	Alarms       []Alarm
}

// Hash is the answer to HashKV. CompactRevision is -1 before the first compaction.
type Hash struct {
	Hash                               uint32
	Revision, CompactRevision, HashRev int64
}
