package watch

import (
	"context"
	"errors"
	"testing"
)

// However many requests a stream gets, it has capacity for only a few answers until its client receives them.
func TestCapacityForAnswers(t *testing.T) {
	st := newStream(t, open(t, Config{}))
	limited, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range controlMax / 2 {
		for _, request := range []func(){func() { st.Watch(everything(0)) }, func() { st.Cancel(int64(i)) }} {
			if err := st.WaitCapacity(limited); err != nil {
				t.Fatalf("no capacity for request %d: %v", 2*i, err)
			}
			request()
		}
	}
	if err := st.WaitCapacity(limited); !errors.Is(err, context.Canceled) {
		t.Fatalf("%d answers wait, but there is capacity: %v", len(st.control), err)
	}
	waits := make(chan error)
	go func() { waits <- st.WaitCapacity(within(t)) }()
	for i := range controlMax {
		if r := next(t, st); r.ID != int64(i/2) || r.Created != (i%2 == 0) || r.Canceled != (i%2 == 1) {
			t.Fatalf("answer %d is %+v", i, r)
		}
	}
	if err := <-waits; err != nil {
		t.Errorf("after all answers are received: %v", err)
	}
	for range controlMax {
		st.Watch(everything(0))
	}
	go func() { waits <- st.WaitCapacity(within(t)) }()
	st.Close()
	if err := <-waits; !errors.Is(err, ErrClosed) {
		t.Errorf("after the stream is closed: %v", err)
	}
}
