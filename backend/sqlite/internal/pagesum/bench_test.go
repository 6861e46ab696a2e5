package pagesum_test

import (
	"testing"

	"github.com/sqlstore/sqlstore/backend/sqlite/internal/pagesum"
)

func BenchmarkValid(b *testing.B) {
	page := make([]byte, 4096)
	pagesum.Sign(page)
	b.SetBytes(int64(len(page)))
	for b.Loop() {
		if !pagesum.Valid(page) {
			b.Fatal("the page is not valid")
		}
	}
}
