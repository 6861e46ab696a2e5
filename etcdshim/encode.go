package etcdshim

import (
	"github.com/sqlstore/sqlstore/internal/snapshot"
	"github.com/sqlstore/sqlstore/internal/store"
)

// reply is an answer that encodes itself: write must fill exactly size bytes, with the result of proto.Marshal.
type reply interface {
	size() int
	write(w *writer)
}

type rangeReply struct {
	id  *identity
	res *store.RangeResult
}

func (r *rangeReply) size() int {
	n := sizeRows(r.res.Rows) + sizeBool(r.res.More) + sizeInt(r.res.Count)
	if r.id != nil {
		n += r.id.size(r.res.Revision)
	}
	return n
}

func (r *rangeReply) write(w *writer) {
	w.int(tag4Int, r.res.Count)
	w.bool(tag3Int, r.res.More)
	w.rows(tag2Bytes, r.res.Rows)
	if r.id != nil {
		w.header(r.id, r.res.Revision)
	}
}

// large is a reply whose values should not be copied.
type large interface {
	// largeValues counts the values of at least cut bytes, and their bytes.
	largeValues(cut int) (values, bytes int)
}

func (r *rangeReply) largeValues(cut int) (values, bytes int) {
	return largeValuesOfRows(r.res.Rows, cut)
}

func largeValuesOfRows(rows []*store.Row, cut int) (values, bytes int) {
	for _, row := range rows {
		if len(row.Value) >= cut {
			values++
			bytes += len(row.Value)
		}
	}
	return values, bytes
}

// chunkReply is a RangeStreamResponse. A nil id omits the header, as in all chunks but the last.
type chunkReply struct{ rangeReply }

func (r *chunkReply) size() int { return sizeMessage(r.rangeReply.size()) }

func (r *chunkReply) write(w *writer) {
	end := w.mark()
	r.rangeReply.write(w)
	w.close(tag1Bytes, end)
}

type putReply struct {
	id  *identity
	res *store.PutResult
}

func (r *putReply) size() int {
	n := r.id.size(r.res.Revision)
	if r.res.Prev != nil {
		n += sizeMessage(sizeRow(r.res.Prev))
	}
	return n
}

func (r *putReply) write(w *writer) {
	if r.res.Prev != nil {
		w.row(tag2Bytes, r.res.Prev)
	}
	w.header(r.id, r.res.Revision)
}

type deleteReply struct {
	id  *identity
	res *store.DeleteResult
}

func (r *deleteReply) size() int {
	return r.id.size(r.res.Revision) + sizeInt(r.res.Deleted) + sizeRows(r.res.Prev)
}

func (r *deleteReply) write(w *writer) {
	w.rows(tag3Bytes, r.res.Prev)
	w.int(tag2Int, r.res.Deleted)
	w.header(r.id, r.res.Revision)
}

func (r *deleteReply) largeValues(cut int) (values, bytes int) {
	return largeValuesOfRows(r.res.Prev, cut)
}

type txnReply struct {
	id  *identity
	res *store.TxnResult
}

func (r *txnReply) size() int { return r.id.size(r.res.Revision) + sizeResults(r.res) }

func (r *txnReply) write(w *writer) {
	w.results(r.res)
	w.header(r.id, r.res.Revision)
}

func (r *txnReply) largeValues(cut int) (values, bytes int) { return largeValuesOfResults(r.res, cut) }

func largeValuesOfResults(t *store.TxnResult, cut int) (values, bytes int) {
	add := func(v, b int) { values, bytes = values+v, bytes+b }
	for i := range t.Results {
		switch r := &t.Results[i]; {
		case r.Range != nil:
			add(largeValuesOfRows(r.Range.Rows, cut))
		case r.Put != nil && r.Put.Prev != nil:
			add(largeValuesOfRows([]*store.Row{r.Put.Prev}, cut))
		case r.Delete != nil:
			add(largeValuesOfRows(r.Delete.Prev, cut))
		case r.Txn != nil:
			add(largeValuesOfResults(r.Txn, cut))
		}
	}
	return values, bytes
}

// sizeResults returns the size of a TxnResponse without its header.
func sizeResults(t *store.TxnResult) int {
	n := sizeBool(t.Succeeded)
	for i := range t.Results {
		var inner int
		switch r := &t.Results[i]; {
		case r.Range != nil:
			inner = sizeMessage((&rangeReply{innerHeader, r.Range}).size())
		case r.Put != nil:
			inner = sizeMessage((&putReply{innerHeader, r.Put}).size())
		case r.Delete != nil:
			inner = sizeMessage((&deleteReply{innerHeader, r.Delete}).size())
		case r.Txn != nil:
			inner = sizeMessage(innerHeader.size(0) + sizeResults(r.Txn))
		}
		n += sizeMessage(inner)
	}
	return n
}

func (w *writer) results(t *store.TxnResult) {
	for i := len(t.Results) - 1; i >= 0; i-- {
		end := w.mark()
		switch r := &t.Results[i]; {
		case r.Range != nil:
			(&rangeReply{innerHeader, r.Range}).write(w)
			w.close(tag1Bytes, end)
		case r.Put != nil:
			(&putReply{innerHeader, r.Put}).write(w)
			w.close(tag2Bytes, end)
		case r.Delete != nil:
			(&deleteReply{innerHeader, r.Delete}).write(w)
			w.close(tag3Bytes, end)
		case r.Txn != nil:
			w.results(r.Txn)
			w.header(innerHeader, 0)
			w.close(tag4Bytes, end)
		}
		w.close(tag3Bytes, end)
	}
	w.bool(tag2Int, t.Succeeded)
}

// watchReply is a WatchResponse.
type watchReply struct {
	id       *identity
	watch    int64
	revision int64
	events   []store.Event
	created  bool
	canceled bool
	fragment bool
	compact  int64
	reason   string
}

func (r *watchReply) size() int {
	n := r.sizeWithoutEvents()
	for i := range r.events {
		n += sizeMessage(sizeEvent(&r.events[i]))
	}
	return n
}

func (r *watchReply) sizeWithoutEvents() int {
	return r.id.size(r.revision) + sizeInt(r.watch) + sizeBool(r.created) + sizeBool(r.canceled) + sizeInt(r.compact) +
		sizeBytes(len(r.reason)) + sizeBool(r.fragment)
}

func (r *watchReply) write(w *writer) {
	for i := len(r.events) - 1; i >= 0; i-- {
		w.event(tag11Bytes, &r.events[i])
	}
	w.bool(tag7Int, r.fragment)
	w.string(tag6Bytes, r.reason)
	w.int(tag5Int, r.compact)
	w.bool(tag4Int, r.canceled)
	w.bool(tag3Int, r.created)
	w.int(tag2Int, r.watch)
	w.header(r.id, r.revision)
}

// snapshotReply is a SnapshotResponse.
type snapshotReply struct {
	remaining int64
	blob      []byte
}

func (r *snapshotReply) size() int {
	return sizeInt(r.remaining) + sizeBytes(len(r.blob)) + sizeBytes(len(snapshot.StorageVersion))
}

func (r *snapshotReply) write(w *writer) {
	w.string(tag4Bytes, snapshot.StorageVersion)
	w.bytes(tag3Bytes, r.blob)
	w.int(tag2Int, r.remaining)
}
