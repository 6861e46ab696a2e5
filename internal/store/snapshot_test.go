package store

import (
	"fmt"
	"sync"
	"testing"
)

// pinnedBytes is what snapshots may keep alive besides the index itself.
func pinnedBytes(s *Store) (snapshots int, bytes int64) {
	s.index.mu.RLock()
	defer s.index.mu.RUnlock()
	for _, snap := range s.index.snapshots {
		bytes = max(bytes, snap.bytes)
	}
	return len(s.index.snapshots), bytes
}

// Streams that nobody reads do not keep what was in memory when they began, and give all the same what there was.
func TestStalledStreamsLetGoOfTheIndex(t *testing.T) {
	const keys, size, streams = 200, 16 << 10, 3
	s := openStore(t, openSQLite(t), Config{CacheBytes: 2 * keys * size})
	eventually(t, "the index is complete", s.index.whole)
	release := make(chan struct{})
	var all sync.WaitGroup
	for round := range byte(streams) {
		write(t, s, keys, size, round)
		entered := make(chan struct{})
		all.Go(func() {
			got := 0
			_, err := s.RangeStream(within(t), &RangeRequest{Key: []byte{0}, End: []byte{0}}, func(rows []*Row) error {
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
	}
	write(t, s, keys, size, streams)
	if n, bytes := pinnedBytes(s); n != 0 || bytes > keys*size/2 {
		t.Errorf("%d snapshots keep %d bytes", n, bytes)
	}
	close(release)
	all.Wait()
}

// write gives each key a value of so many bytes that all are b.
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

// A stream goes on from its snapshot though newer lists have pushed out others, and though it is compacted.
func TestStreamsKeepTheirSnapshots(t *testing.T) {
	s := openStore(t, openSQLite(t), Config{})
	eventually(t, "the index is complete", s.index.whole)
	first := put(t, s, "a", "1")
	_, pinned := s.index.pin(first)
	for range 2 * snapshotUsed {
		rev := put(t, s, "a", "")
		s.index.at(rev)
		if n, _ := pinnedBytes(s); n > snapshotMax+1 {
			t.Fatalf("%d snapshots are kept", n)
		}
	}
	if pinned.keys() == nil {
		t.Error("a snapshot in use was let go")
	}
	pinned.end()
	s.index.at(put(t, s, "a", ""))
	s.index.at(put(t, s, "a", ""))
	if pinned.keys() != nil {
		t.Error("a snapshot that nobody uses is kept before newer ones")
	}
	for range 2 * snapshotUsed {
		s.index.pin(put(t, s, "a", ""))
		if n, _ := pinnedBytes(s); n > snapshotUsed {
			t.Fatalf("%d snapshots are kept", n)
		}
	}
}
