package backend

import "hash/crc32"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendCRC returns the CRC-32C (Castagnoli) of bytes that have the CRC head, followed by size bytes that have the CRC
// tail. A CRC is the remainder of a polynomial over GF(2): to append bytes is to multiply by a power of x, and to add.
// So the function also returns tail for the CRC of all bytes in its place.
func AppendCRC(head, tail uint32, size int64) uint32 { return shift(head, size) ^ tail }

// one is the polynomial 1: the lowest power has the highest bit.
const one = uint32(1) << 31

// tabulated is the number of powers whose products are in tables, which multiply many times as fast. The others are of
// sizes from 16 MiB.
const tabulated = 24

// powers are x^(8 * 2^i) modulo the CRC's polynomial, and tables have the products of the first of them, for each byte
// of the other factor.
var (
	powers [63]uint32
	tables [tabulated][4][256]uint32
)

func init() {
	powers[0] = one >> 8
	for i := 1; i < len(powers); i++ {
		powers[i] = multiply(powers[i-1], powers[i-1])
	}
	for i := range tables {
		for place := range tables[i] {
			t := &tables[i][place]
			for n := 1; n < len(t); n++ {
				if rest := n & (n - 1); rest != 0 {
					t[n] = t[rest] ^ t[n^rest]
				} else {
					t[n] = multiply(powers[i], uint32(n)<<(8*place))
				}
			}
		}
	}
}

// shift multiplies a sum by x^(8 * size).
func shift(sum uint32, size int64) uint32 {
	for i := 0; size > 0; i, size = i+1, size>>1 {
		switch {
		case size&1 == 0:
		case i < tabulated:
			t := &tables[i]
			sum = t[0][byte(sum)] ^ t[1][byte(sum>>8)] ^ t[2][byte(sum>>16)] ^ t[3][byte(sum>>24)]
		default:
			sum = multiply(powers[i], sum)
		}
	}
	return sum
}

// multiply returns the product of two polynomials modulo the CRC's.
func multiply(a, b uint32) (p uint32) {
	for bit := one; bit != 0; bit >>= 1 {
		if a&bit != 0 {
			p ^= b
		}
		b = b>>1 ^ crc32.Castagnoli&-(b&1)
	}
	return p
}
