package store

import "context"

// streamFirst is the size of the first chunk of a RangeStream; the next ones double, up to what keeps a chunk near streamBytes.
const (
	streamFirst = 10
	streamBytes = 512 << 10
	// chunkFirst is the first chunk of what is read for ourselves.
	chunkFirst = 100
)

// RangeStream hands the rows of req's range to send in chunks, all at one revision, holding no more than a chunk in memory.
// The result has everything but the rows. req has no sort and no filters: the caller refuses those.
//
// A compaction that overtakes an open stream does not end it, as it ends etcd's: rows that the stream may still read are not
// deleted. Only one that is still open after [StreamHold] may end with [ErrCompacted]. Errors: as Range, and what send returns.
func (s *Store) RangeStream(ctx context.Context, req *RangeRequest, send func(rows []*Row) error) (*RangeResult, error) {
	if !req.Serializable {
		if err := s.confirm(ctx); err != nil {
			return nil, err
		}
	}
	sp := makeSpan(req.Key, req.End)
	v, err := s.hold(req.Revision)
	if err != nil {
		return nil, err
	}
	defer v.hold.end()
	res := &RangeResult{Revision: v.current, Incarnation: v.incarnation}
	if sp.empty {
		return res, nil
	}
	v.tree = s.index.at(v.rev, v.incarnation)
	if req.CountOnly {
		res.Count, err = s.count(ctx, sp, v)
		return res, err
	}
	limit := req.Limit
	if limit <= 0 {
		limit = -1
	}
	next, more, err := s.scan(ctx, sp, v, limit, streamFirst, req, func(rows []*Row) error {
		res.Count += int64(len(rows))
		return send(rows)
	})
	if err != nil {
		return nil, err
	}
	if res.More = more; more && !req.NoCount {
		res.Count, err = s.countPage(ctx, sp, v, next, res.Count)
	}
	return res, err
}

// nextChunk is the size of the chunk after one that was read as rows.
func nextChunk(size int, rows []*Row) int {
	total := int64(0)
	for _, r := range rows {
		total += int64(len(r.Key) + len(r.Value))
	}
	return fitChunk(size, len(rows), total, readChunk)
}

// fitChunk doubles a chunk's size, up to most, unless what the last one read says that it would not fit into streamBytes.
func fitChunk(size, read int, total int64, most int) int {
	if read == 0 {
		return size
	}
	fits := streamBytes * int64(read) / max(1, total)
	return int(max(1, min(int64(2*size), int64(most), fits)))
}
