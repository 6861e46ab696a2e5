package snapshot

import (
	"hash/crc32"
	"testing"
)

func FuzzAppend(f *testing.F) {
	f.Add([]byte("123456789"), []byte(""))
	f.Add([]byte(""), make([]byte, 5000))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var got, tail crc
		got.add(a)
		tail.add(b)
		got.append(tail)
		all := append(a[:len(a):len(a)], b...)
		if want := crc32.Checksum(all, castagnoli); got.sum != want || got.size != int64(len(all)) {
			t.Errorf("%x of %d bytes, want %x of %d", got.sum, got.size, want, len(all))
		}
	})
}
