package backendtest

import "context"

func testListen(p *pair) {
	ctx, cancel := context.WithCancel(p.ctx)
	states, hints, done := make(chan bool, 100), make(chan int64, 1000), make(chan struct{})
	go func() {
		defer close(done)
		p.other.Listen(ctx, func(revision int64) { hints <- revision }, func(listening bool) { states <- listening })
	}()
	defer func() {
		cancel()
		<-done
	}()
	if can := <-states; can == p.hooks.NoHints {
		p.Fatalf("hints can be expected: %t", can)
	}
	p.commit([]op{put("a", "1")})
	if p.hooks.NoHints {
		p.noHint(hints, states)
		return
	}
	for revision := int64(0); revision < p.m.clock.Revision; {
		select {
		case revision = <-hints:
		case <-p.ctx.Done():
			p.Fatal("no hint came")
		}
	}
}

// noHint fails if, within the time of some commits, a hint comes or Listen says anything more.
func (p *pair) noHint(hints <-chan int64, states <-chan bool) {
	p.Helper()
	for range 20 {
		p.commit([]op{put("a", "1")})
	}
	select {
	case h := <-hints:
		p.Errorf("hint %d where there are none", h)
	case now := <-states:
		p.Errorf("said again whether hints can be expected: %t", now)
	default:
	}
}
