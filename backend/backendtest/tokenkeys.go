package backendtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// checkTokenKeys compares the keys with want, written "1=secret 2=other".
func (f *fixture) checkTokenKeys(want string) {
	f.Helper()
	keys, err := f.b.TokenKeys(context.Background())
	if err != nil {
		f.Fatal(err)
	}
	var got []string
	for _, k := range keys {
		got = append(got, fmt.Sprintf("%d=%s", k.ID, k.Key))
		if age := time.Since(k.Created); age < -time.Hour || age > time.Hour {
			f.Errorf("key %d was made %v ago", k.ID, age)
		}
	}
	if s := strings.Join(got, " "); s != want {
		f.Errorf("token keys %s, want %s", s, want)
	}
}

func testTokenKeys(f *fixture) {
	ctx := context.Background()
	add := func(last int64, key string, want error) {
		f.Helper()
		f.wantErr(fmt.Sprintf("add %s after %d", key, last), f.b.AddTokenKey(ctx, last, []byte(key)), want)
	}
	drop := func(below int64) {
		f.Helper()
		f.wantErr(fmt.Sprintf("drop below %d", below), f.b.DropTokenKeys(ctx, below), nil)
	}
	f.checkTokenKeys("")
	drop(5)
	add(1, "none is the first", backend.ErrConflict)
	add(0, "a\x00\xff", nil)
	add(0, "late", backend.ErrConflict)
	add(1, "b", nil)
	add(2, "c", nil)
	f.checkTokenKeys("1=a\x00\xff 2=b 3=c")
	drop(1)
	drop(3)
	f.checkTokenKeys("3=c")
	add(1, "the id is free, but past", backend.ErrConflict)
	add(0, "likewise", backend.ErrConflict)
	drop(100) // the newest stays, so that ids are never reused
	f.checkTokenKeys("3=c")
	add(3, "d", nil)
	f.checkTokenKeys("3=c 4=d")
	f.commit([]op{put("a", "1")}) // the clock has not been moved
}

// testTokenKeysByMany makes several callers add the first key, and then the next ones, concurrently: each id is added
// once.
func testTokenKeysByMany(f *fixture) { f.raceForTokenKeys(f.b) }

func testTokenKeysByBoth(p *pair) {
	p.raceForTokenKeys(p.a, p.other)
	p.ok(p.other.DropTokenKeys(p.ctx, 3))
	p.checkTokenKeys("3=k3")
}

func (f *fixture) raceForTokenKeys(backends ...backend.Backend) {
	ctx := context.Background()
	for last := range int64(3) {
		start := make(chan struct{})
		errs := make([]error, 6)
		var wg sync.WaitGroup
		for i := range errs {
			b := backends[i%len(backends)]
			wg.Go(func() {
				<-start
				errs[i] = b.AddTokenKey(ctx, last, fmt.Append(nil, "k", last+1))
			})
		}
		close(start)
		wg.Wait()
		won := 0
		for _, err := range errs {
			switch {
			case err == nil:
				won++
			case !errors.Is(err, backend.ErrConflict):
				f.Errorf("add after %d: %v", last, err)
			}
		}
		if won != 1 {
			f.Errorf("%d callers added the key after %d", won, last)
		}
	}
	f.checkTokenKeys("1=k1 2=k2 3=k3")
}
