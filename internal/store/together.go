package store

import (
	"context"
	"sync"
)

// together asks one question for all who wait for the answer: those who come while it is being asked share the next
// time, which begins after they have come. So an answer is never older than the call.
type together[T any] struct {
	background *background
	ask        func() (T, error)

	mu   sync.Mutex
	busy bool
	next *answer[T] // gathers, nil when nobody waits
}

// answer has value and err once done is closed.
type answer[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// get returns an answer that was asked for after the call, and that others may have, too. Errors: ctx's, [ErrClosed],
// those of the question.
func (t *together[T]) get(ctx context.Context) (value T, err error) {
	t.mu.Lock()
	if !t.busy {
		if t.busy = t.background.start(t.run); !t.busy {
			t.mu.Unlock()
			return value, ErrClosed
		}
	}
	if t.next == nil {
		t.next = &answer[T]{done: make(chan struct{})}
	}
	a := t.next
	t.mu.Unlock()
	select {
	case <-a.done:
		return a.value, a.err
	case <-ctx.Done():
		return value, ctx.Err()
	}
}

func (t *together[T]) run() {
	for {
		t.mu.Lock()
		a := t.next
		t.next, t.busy = nil, a != nil
		t.mu.Unlock()
		if a == nil {
			return
		}
		a.value, a.err = t.ask()
		close(a.done)
	}
}
