package snapshot

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store"
)

// StorageVersion is etcd's name for the file layout.
const StorageVersion = "3.7.0"

var (
	bucketKey   = []byte("key")
	bucketMeta  = []byte("meta")
	bucketLease = []byte("lease")
	bucketAlarm = []byte("alarm")
	buckets     = [][]byte{
		bucketKey, bucketMeta, bucketLease, bucketAlarm, []byte("cluster"),
		[]byte("members"), []byte("members_removed"), bucketAuth, bucketUsers, bucketRoles,
	}
)

// pair is an entry of a bucket.
type pair struct {
	bucket, key, value []byte
	// rest follows the value. It is not part of the hash of the file, because replicas do not agree on it.
	rest []byte
	// unhashed is set if etcd leaves it out of the hash of the file, because members do not agree on it.
	unhashed bool
}

// metadata returns all entries except those of the rows, in the order of their buckets and keys.
func metadata(x *store.Export) []pair {
	pairs := []pair{
		{bucket: bucketMeta, key: []byte("consistent_index"), value: number(x.Revision), unhashed: true},
		{bucket: bucketMeta, key: []byte("term"), value: number(1), unhashed: true},
		{bucket: bucketMeta, key: []byte("storageVersion"), value: []byte(StorageVersion), unhashed: true},
	}
	if x.Compacted > 0 {
		at := appendRevision(nil, backend.RowID{ModRevision: x.Compacted}, false)
		for _, key := range []string{"scheduledCompactRev", "finishedCompactRev"} {
			pairs = append(pairs, pair{bucket: bucketMeta, key: []byte(key), value: at})
		}
	}
	for _, l := range x.Leases {
		const fieldID, fieldTTL, fieldRemaining = 1, 2, 3
		lease := appendInt(appendInt(nil, fieldID, l.ID), fieldTTL, int64(l.Granted.Seconds()))
		var remaining []byte
		if l.Remaining < l.Granted { // etcd takes 0 for all of the TTL
			remaining = appendInt(nil, fieldRemaining, max(int64(math.Ceil(l.Remaining.Seconds())), 1))
		}
		pairs = append(pairs, pair{bucket: bucketLease, key: number(l.ID), value: lease, rest: remaining})
	}
	for _, a := range x.Alarms {
		const fieldMember, fieldAlarm = 1, 2
		alarm := appendInt(appendInt(nil, fieldMember, int64(a.Member)), fieldAlarm, int64(a.Kind))
		pairs = append(pairs, pair{bucket: bucketAlarm, key: alarm, value: []byte{}})
	}
	pairs = append(pairs, users(x.Auth)...)
	slices.SortFunc(pairs, func(a, b pair) int {
		return cmp.Or(bytes.Compare(a.bucket, b.bucket), bytes.Compare(a.key, b.key))
	})
	return pairs
}

func number(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// revisionSize is the greatest size of the key that a row has in etcd's file.
const revisionSize = 8 + 1 + 8 + 1

// appendRevision appends that key.
func appendRevision(b []byte, id backend.RowID, tombstone bool) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(id.ModRevision))
	b = append(b, '_')
	b = binary.BigEndian.AppendUint64(b, uint64(id.Ordinal))
	if tombstone {
		b = append(b, 't')
	}
	return b
}

// The numbers of the fields of etcd's message KeyValue.
const (
	fieldKey protowire.Number = iota + 1
	fieldCreateRevision
	fieldModRevision
	fieldVersion
	fieldValue
	fieldLease
)

// appendRow appends what a row is in etcd's file: the message KeyValue, of which a tombstone has only the key.
func appendRow(b []byte, r *backend.Row) []byte {
	return appendTail(append(appendHead(b, r, int64(len(r.Value))), r.Value...), r)
}

// appendHead appends what precedes the value, which has that size, and appendTail what follows it.
func appendHead(b []byte, r *backend.Row, size int64) []byte {
	b = protowire.AppendBytes(protowire.AppendTag(b, fieldKey, protowire.BytesType), r.Key)
	if r.Deleted {
		return b
	}
	b = appendInt(b, fieldCreateRevision, r.CreateRevision)
	b = appendInt(b, fieldModRevision, r.ModRevision)
	b = appendInt(b, fieldVersion, r.Version)
	if size == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, fieldValue, protowire.BytesType), uint64(size))
}

func appendTail(b []byte, r *backend.Row) []byte {
	if r.Deleted {
		return b
	}
	return appendInt(b, fieldLease, r.Lease)
}

func appendInt(b []byte, field protowire.Number, v int64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(v))
}
