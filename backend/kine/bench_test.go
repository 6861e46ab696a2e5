package kine

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

// benchRows is how many keys of 1 KiB a benchmark moves.
const benchRows = 100_000

func benchExport(b *testing.B, url string) {
	b.Helper()
	value := make([]byte, 1024)
	key := make([]byte, 0, 60)
	if err := Export(b.Context(), url, &Store{
		Revision: benchRows + 1, Rows: func(_ context.Context, f func(backend.Row) error) error {
			for i := range int64(benchRows) {
				r := put(i+2, "")
				r.Key = append(append(key, "/registry/pods/default/some-deployment-5f8d7c6b9-"...), decimal(i)...)
				r.Value = value
				if err := f(r); err != nil {
					return err
				}
			}
			return nil
		},
	}); err != nil {
		b.Fatal(err)
	}
}

func decimal(n int64) []byte {
	digits := []byte("000000")
	for i := len(digits) - 1; n > 0; i, n = i-1, n/10 {
		digits[i] = byte('0' + n%10)
	}
	return digits
}

func BenchmarkRows(b *testing.B) {
	path := filepath.Join(b.TempDir(), "state.db")
	benchExport(b, Prefix+"sqlite://"+path)
	s, err := Open(b.Context(), Prefix+"sqlite://"+path)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for b.Loop() {
		if err := s.Rows(b.Context(), func(*backend.Row) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(benchRows*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkExport(b *testing.B) {
	for b.Loop() {
		benchExport(b, Prefix+"sqlite://"+filepath.Join(b.TempDir(), "state.db"))
	}
	b.ReportMetric(benchRows*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
