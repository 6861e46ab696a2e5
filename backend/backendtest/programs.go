package backendtest

import (
	"context"

	"github.com/sqlstore/sqlstore/backend"
)

func testPrograms(f *fixture) {
	b, ok := f.b.(backend.Programs)
	if !ok {
		return // a simulated database
	}
	before := ""
	for _, version := range []string{"0.1.0", "0.1.0", "0.2.0-dev", "0.1.0", "0.2.0-dev"} {
		if got, err := b.RecordProgram(context.Background(), version); got != before || err != nil {
			f.Errorf("before %s: %q, %v, want %q", version, got, err, before)
		}
		before = version
	}
}
