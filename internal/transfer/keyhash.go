package transfer

import "hash/maphash"

// keyHash stands for a key, which would take more memory. Two keys with the same one would cost a row, so it is long
// enough that there are none.
type keyHash [2]uint64

// hasher computes hashes of keys. They differ from one hasher to the next.
type hasher [2]maphash.Seed

func newHasher() hasher { return hasher{maphash.MakeSeed(), maphash.MakeSeed()} }

func (h *hasher) hash(key []byte) keyHash {
	return keyHash{maphash.Bytes(h[0], key), maphash.Bytes(h[1], key)}
}
