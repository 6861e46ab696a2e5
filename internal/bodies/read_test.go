package bodies

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// never is an abort that must not be called.
func never(t *testing.T) func() {
	return func() { t.Error("aborted") }
}

// Bodies of all sizes are read, whether or not their size is announced, and those over the limit are refused.
func TestSizes(t *testing.T) {
	const limit = 3 * Small
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(limit, minute)
		for _, size := range []int{0, 1, Small - 1, Small, Small + 1, limit - 1, limit, limit + 1, 2 * limit} {
			text := []byte(strings.Repeat("x", size))
			for _, length := range []int64{int64(size), -1} {
				for kind, from := range map[string]io.Reader{
					"at once":     bytes.NewReader(text),
					"in pieces":   iotest.HalfReader(bytes.NewReader(text)),
					"and its end": iotest.DataErrReader(bytes.NewReader(text)),
				} {
					body, err := b.Read(t.Context(), from, length, limit, never(t))
					tooLong, ok := errors.AsType[*http.MaxBytesError](err)
					switch {
					case size > limit && (!ok || tooLong.Limit != limit || body != nil):
						t.Errorf("%d bytes, announced as %d, %s: %v", size, length, kind, err)
					case size <= limit && (err != nil || !bytes.Equal(body.Bytes, text)):
						t.Errorf("%d bytes, announced as %d, %s: %v", size, length, kind, err)
					case err == nil && (body.release != nil) != (size > Small || size == Small && length < 0):
						t.Errorf("%d bytes, announced as %d, %s: capacity reserved or not is wrong", size, length, kind)
					}
					body.Release()
					body.Release()
				}
			}
		}
		empty(t, b.last(), budgetBytes)
	})
}

// A body announced as too long is not read at all; one that turns out to be is not read to its end.
func TestTooLongIsNotRead(t *testing.T) {
	b := NewBudget(10, minute)
	_, err := b.Read(t.Context(), iotest.ErrReader(errors.New("read")), 11, 10, never(t))
	if _, ok := errors.AsType[*http.MaxBytesError](err); !ok {
		t.Error(err)
	}
	from := strings.NewReader(strings.Repeat("x", 100))
	_, err = b.Read(t.Context(), from, -1, 10, never(t))
	if _, ok := errors.AsType[*http.MaxBytesError](err); !ok || from.Len() != 100-11 {
		t.Errorf("%d bytes are left unread, %v", from.Len(), err)
	}
}

// A body that has arrived does not give way, however long it is in use.
func TestBodiesInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(mib, minute)
		var all []*Body
		for range budgetBytes / mib {
			body, err := b.Read(t.Context(), bytes.NewReader(make([]byte, mib)), mib, mib, never(t))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, body)
		}
		time.Sleep(2 * minute)
		if _, err := tryEnter(t.Context(), b.last(), mib); !errors.Is(err, ErrFull) {
			t.Error(err)
		}
		for _, body := range all {
			body.Release()
		}
		empty(t, b.last(), budgetBytes)
	})
}

// A body that cannot be read to its end releases its capacity.
func TestBrokenBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(mib, minute)
		for _, length := range []int64{10, mib, -1} {
			for _, before := range []int{0, 5, Small + 5} {
				text := strings.NewReader(strings.Repeat("x", before))
				from := io.MultiReader(text, iotest.ErrReader(io.ErrUnexpectedEOF))
				body, err := b.Read(t.Context(), from, length, mib, never(t))
				if !errors.Is(err, io.ErrUnexpectedEOF) || body != nil {
					t.Errorf("announced as %d, broken after %d: %v", length, before, err)
				}
			}
		}
		empty(t, b.last(), budgetBytes)
	})
}

// Bodies that are not very large are read even without capacity for those, also if only their end shows it.
func TestSmallBodiesReserveLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(mib, minute)
		all := serve(t, b.last())
		for _, c := range []struct {
			size, length int64
			want         error
		}{
			{10, 10, nil},
			{10, -1, nil},
			{Small, Small, nil},
			{Small - 1, -1, nil},
			{begun, begun, nil},
			{begun + 1, begun + 1, ErrFull},
			{begun + 1, -1, ErrFull},
		} {
			began := time.Now()
			from := bytes.NewReader(make([]byte, c.size))
			body, err := b.Read(t.Context(), from, c.length, mib, never(t))
			if !errors.Is(err, c.want) || (time.Since(began) == 0) != (c.want == nil) {
				t.Errorf("%+v: %v after %s", c, err, time.Since(began))
			}
			body.Release()
		}
		for _, e := range all {
			e.release()
		}
		empty(t, b.last(), budgetBytes)
	})
}

// A body of unknown size occupies the capacity of the longest until it is released.
func TestChunkedBodiesReserveTheLimit(t *testing.T) {
	const limit = budgetBytes / leastBodies
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(limit, minute)
		read := make(chan *Body)
		var writers []*io.PipeWriter
		for range leastBodies {
			from, to := io.Pipe()
			writers = append(writers, to)
			go func() {
				body, err := b.Read(t.Context(), from, -1, limit, never(t))
				if err != nil {
					t.Error(err)
				}
				read <- body
			}()
			_, _ = to.Write(make([]byte, begun))
		}
		synctest.Wait()
		if b.last().free > 0 {
			t.Error("there is capacity beside as many of the longest as fit")
		}
		_ = writers[0].Close()
		body := <-read
		if b.last().free > 0 {
			t.Error("the capacity is free before the body is released")
		}
		body.Release()
		body.Release()
		enter(t, b.last(), limit).release()
		for _, w := range writers[1:] {
			_ = w.Close()
			(<-read).Release()
		}
		empty(t, b.last(), budgetBytes)
	})
}

// A stalled body is aborted: after its timeout, or soon if another waits.
func TestBodiesThatDoNotArrive(t *testing.T) {
	for name, c := range map[string]struct {
		length int64
		others bool
		want   time.Duration
	}{
		"small":                    {10, false, minute},
		"small, and others wait":   {10, true, minute},
		"large":                    {mib, false, minute},
		"large, and others wait":   {mib, true, stall},
		"chunked":                  {-1, false, minute},
		"chunked, and others wait": {-1, true, stall},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := NewBudget(mib, minute)
				began := time.Now()
				from, to := io.Pipe()
				slow := make(chan error)
				go func() {
					abort := func() { _ = from.CloseWithError(errors.New("aborted")) }
					_, err := b.Read(t.Context(), from, c.length, mib, abort)
					slow <- err
				}()
				if c.length != 10 {
					_, _ = to.Write(make([]byte, begun+1)) // otherwise it reserves little
				}
				synctest.Wait()
				if c.others {
					if c.length != 10 {
						for _, e := range fill(t, b.last(), budgetBytes/mib-1) {
							e.arrived()
						}
					}
					time.AfterFunc(stall/2, func() { _, _ = tryEnter(t.Context(), b.last(), mib) })
				}
				if err := <-slow; !errors.Is(err, ErrSlow) || time.Since(began) != c.want {
					t.Errorf("%v after %s", err, time.Since(began))
				}
				_ = to.Close()
			})
		})
	}
}

// The time for which a body waits for capacity does not count against the client.
func TestWaitingIsNotSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(mib, minute)
		all := serve(t, b.last())
		from, to := io.Pipe()
		done := make(chan error)
		go func() {
			_, err := b.Read(t.Context(), from, mib, mib, never(t))
			done <- err
		}()
		_, _ = to.Write(make([]byte, begun))
		time.Sleep(waitTimeout - time.Millisecond)
		all[0].release()
		time.Sleep(minute - time.Millisecond)
		_ = to.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Bodies that are only announced reserve no capacity, however many.
func TestAnnouncedBodiesReserveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(mib, minute)
		var idle sync.WaitGroup
		for range 10 * budgetBytes / mib {
			from, to := io.Pipe()
			idle.Go(func() {
				abort := func() { _ = from.CloseWithError(errors.New("aborted")) }
				if _, err := b.Read(t.Context(), from, mib, mib, abort); !errors.Is(err, ErrSlow) {
					t.Error(err)
				}
			})
			_, _ = to.Write(make([]byte, Small-1))
		}
		synctest.Wait()
		began := time.Now()
		body, err := b.Read(t.Context(), bytes.NewReader(make([]byte, mib)), mib, mib, never(t))
		if err != nil || time.Since(began) != 0 {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		body.Release()
		idle.Wait()
		empty(t, b.last(), budgetBytes)
	})
}
