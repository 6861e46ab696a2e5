package backend

import (
	"hash/crc32"
	"slices"
	"testing"
)

func FuzzAppendCRC(f *testing.F) {
	f.Add([]byte("123456789"), []byte(""))
	f.Add([]byte(""), make([]byte, 5000))
	f.Add([]byte("head"), []byte("tail"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		head, whole := crc32.Checksum(a, castagnoli), crc32.Checksum(slices.Concat(a, b), castagnoli)
		tail := DigestOf(b)
		if got := AppendCRC(head, tail.CRC, tail.Size); got != whole {
			t.Errorf("%x, want %x", got, whole)
		}
		if got := AppendCRC(head, whole, tail.Size); got != tail.CRC {
			t.Errorf("a tail of %x, want %x", got, tail.CRC)
		}
	})
}

// A size that no memory holds: as many zeros in two parts.
func TestAppendCRCLarge(t *testing.T) {
	const n = 1 << 40
	const head = uint32(0x12345678)
	if got, want := AppendCRC(AppendCRC(head, 0, n), 0, n), AppendCRC(head, 0, 2*n); got != want {
		t.Errorf("%x, want %x", got, want)
	}
}

func BenchmarkAppendCRC(b *testing.B) {
	sum := uint32(1)
	for b.Loop() {
		sum = AppendCRC(sum, 7, 1037)
	}
}
