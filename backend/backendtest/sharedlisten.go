package backendtest

import "context"

func testListen(p *pair) {
	ctx, cancel := context.WithCancel(p.ctx)
	states, hints, done := make(chan bool, 100), make(chan [2]int64, 1000), make(chan struct{})
	go func() {
		defer close(done)
		p.other.Listen(ctx, func(revision, compacted int64) { hints <- [2]int64{revision, compacted} },
			func(listening bool) { states <- listening })
	}()
	defer func() {
		cancel()
		<-done
	}()
	if can := <-states; can == p.hooks.NoHints {
		p.Fatalf("hints can be expected: %t", can)
	}
	if p.hooks.NoHints {
		p.noHint(hints, states)
		return
	}
	for _, sent := range [][2]int64{{2, 0}, {3, 2}, {4, -1}, {0, 0}} {
		p.ok(p.a.Hint(p.ctx, sent[0], sent[1]))
		for hint := [2]int64{-1}; hint != sent; {
			select {
			case hint = <-hints:
			case <-p.ctx.Done():
				p.Fatal("no hint arrived")
			}
		}
	}
}

// noHint fails if, after some were sent, a hint arrives or Listen reports anything more.
func (p *pair) noHint(hints <-chan [2]int64, states <-chan bool) {
	p.Helper()
	for range 20 {
		p.ok(p.a.Hint(p.ctx, 2, 0))
	}
	select {
	case h := <-hints:
		p.Errorf("hint %d where there are none", h)
	case now := <-states:
		p.Errorf("reported again whether hints can be expected: %t", now)
	default:
	}
}
