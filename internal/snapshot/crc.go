package snapshot

import "hash/crc32"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// crc is the CRC-32C of a sequence of bytes.
type crc struct {
	sum  uint32
	size int64
}

func (c *crc) add(b []byte) {
	c.sum = crc32.Update(c.sum, castagnoli, b)
	c.size += int64(len(b))
}

// append makes c the CRC of its bytes followed by those of tail. A CRC is the remainder of a polynomial over GF(2), so
// that to append bytes is to multiply by a power of x, and to add.
func (c *crc) append(tail crc) {
	c.sum = multiply(power(8*uint64(tail.size)), c.sum) ^ tail.sum
	c.size += tail.size
}

// one is the polynomial 1: the lowest power has the highest bit.
const one = uint32(1) << 31

// power returns x^n modulo the CRC's polynomial.
func power(n uint64) uint32 {
	p := one
	for square := one >> 1; n > 0; n >>= 1 {
		if n&1 != 0 {
			p = multiply(square, p)
		}
		square = multiply(square, square)
	}
	return p
}

// multiply returns the product of two polynomials modulo the CRC's.
func multiply(a, b uint32) (p uint32) {
	for bit := one; bit != 0; bit >>= 1 {
		if a&bit != 0 {
			p ^= b
		}
		carry := b & 1
		b >>= 1
		if carry != 0 {
			b ^= crc32.Castagnoli
		}
	}
	return p
}
