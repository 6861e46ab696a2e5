package backend

import (
	"strings"
	"testing"
	"time"
)

// One slow duration in a hundred is within the limit; of fewer, none may be slow.
func TestLatencyFinding(t *testing.T) {
	for _, c := range []struct {
		count, slow int
		want        Severity
		detail      string
	}{
		{1, 0, OK, "p50 1ms, max 1ms of 1"},
		{2, 1, Warning, "p50 1ms, max 9ms of 2"},
		{99, 1, Warning, "p50 1ms, max 9ms of 99"},
		{100, 1, OK, "p50 1ms, p99 1ms of 100"},
		{100, 2, Warning, "p50 1ms, p99 9ms of 100"},
		{200, 2, OK, "p50 1ms, p99 1ms of 200"},
		{200, 3, Warning, "p50 1ms, p99 9ms of 200"},
	} {
		var all []time.Duration
		for i := range c.count {
			if i < c.slow {
				all = append(all, 9*time.Millisecond)
			} else {
				all = append(all, time.Millisecond)
			}
		}
		f := LatencyFinding("s", all, 5*time.Millisecond, "hurry")
		if f.Severity != c.want || f.Detail != c.detail || (f.Advice == "") != (c.want == OK) {
			t.Errorf("%d slow of %d: %+v", c.slow, c.count, f)
		}
		if c.want == Warning && !strings.Contains(f.Advice, "hurry") {
			t.Errorf("advice %q", f.Advice)
		}
	}
}
