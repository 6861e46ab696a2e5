package sqlite

import "testing"

// TestLoadProfile counts only the writes since the last check.
func TestLoadProfile(t *testing.T) {
	var p checkpointer
	p.b = &Backend{}
	for i, tc := range []struct{ rows, commits, want int }{
		{0, 0, alone},
		{10, 10, alone},
		{14, 10, alone},
		{15, 10, several},
		{79, 10, several},
		{80, 10, many},
		{1, 1, alone},
		{8, 1, many},
		{0, 0, alone},
	} {
		p.add(0, tc.rows, tc.commits)
		if got := p.judge(); got != tc.want || p.profile != tc.want {
			t.Errorf("%d: %d rows in %d commits are profile %d, want %d", i, tc.rows, tc.commits, got, tc.want)
		}
	}
}
