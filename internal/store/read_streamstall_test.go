package store

import (
	"fmt"
	"sync"
	"testing"
)

// Streams whose clients do not read release the snapshot that they began with, and still return the same rows.
func TestStalledStreamsLetGoOfTheIndex(t *testing.T) {
	const keys, size, streams = 200, 16 << 10, 3
	s := openStore(t, openSQLite(t), Config{CacheBytes: 2 * keys * size})
	eventually(t, "the index is complete", s.index.Complete)
	release := make(chan struct{})
	var all sync.WaitGroup
	var revisions []int64
	for round := range byte(streams) {
		write(t, s, keys, size, round)
		entered := make(chan struct{})
		all.Go(func() {
			got := 0
			req := &RangeRequest{Key: []byte{0}, End: []byte{0}}
			_, err := s.RangeStream(within(t), req, func(rows []*Row, _ bool) error {
				if got == 0 {
					close(entered)
					<-release
				}
				for _, r := range rows {
					if got++; len(r.Value) != size || r.Value[0] != round {
						t.Errorf("stream %d got %s of round %d", round, r.Key, r.Value[0])
					}
				}
				return nil
			})
			if err != nil || got != keys {
				t.Errorf("stream %d: %d rows, %v", round, got, err)
			}
		})
		<-entered
		revisions = append(revisions, s.Revision())
	}
	write(t, s, keys, size, streams)
	for _, rev := range revisions {
		if _, rows := s.index.At(rev); rows != nil {
			t.Errorf("the snapshot of revision %d is still in memory", rev)
		}
	}
	close(release)
	all.Wait()
}

// write gives each key a value of size bytes, all equal to b.
func write(t *testing.T, s *Store, keys, size int, b byte) {
	t.Helper()
	for i := range keys {
		value := make([]byte, size)
		for j := range value {
			value[j] = b
		}
		if _, err := s.Put(within(t), &PutRequest{Key: fmt.Appendf(nil, "k%04d", i), Value: value}); err != nil {
			t.Fatal(err)
		}
	}
}
