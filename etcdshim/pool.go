package etcdshim

import (
	"math/bits"
	"sync"

	"google.golang.org/grpc/mem"
)

// replies is a pool of buffers for encoded replies, in sizes of powers of two. Unlike grpc's default it does not clear
// buffers (every byte is written before it is sent), has sizes close to the requested ones, and does not keep huge
// buffers.
var replies = &bufferPool{}

const (
	poolMin = 11 // 2 KiB; grpc does not return buffers smaller than 1 KiB
	poolMax = 20 // 1 MiB
)

type bufferPool struct {
	sizes [poolMax - poolMin + 1]sync.Pool
}

var _ mem.BufferPool = (*bufferPool)(nil)

func (p *bufferPool) Get(n int) *[]byte {
	if mem.IsBelowBufferPoolingThreshold(n) || n > 1<<poolMax {
		b := make([]byte, n)
		return &b
	}
	exp := max(poolMin, bits.Len(uint(n-1)))
	if b, ok := p.sizes[exp-poolMin].Get().(*[]byte); ok {
		*b = (*b)[:n]
		return b
	}
	b := make([]byte, n, 1<<exp)
	return &b
}

// size is the capacity of the buffer that Get returns for n bytes.
func (p *bufferPool) size(n int) int {
	if mem.IsBelowBufferPoolingThreshold(n) || n > 1<<poolMax {
		return n
	}
	return 1 << max(poolMin, bits.Len(uint(n-1)))
}

func (p *bufferPool) Put(b *[]byte) {
	exp := bits.Len(uint(cap(*b))) - 1
	if exp >= poolMin && exp <= poolMax && cap(*b) == 1<<exp {
		p.sizes[exp-poolMin].Put(b)
	}
}
