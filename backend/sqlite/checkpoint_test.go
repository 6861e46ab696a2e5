package sqlite

import (
	"path/filepath"
	"testing"
	"time"
)

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

// TestCheckpointOfAnother makes a round of the checkpointer while another connection holds the lock on checkpoints and
// waits for a reader. The round copies nothing, so it must not end the stall.
func TestCheckpointOfAnother(t *testing.T) {
	b := openTest(t, Config{Path: filepath.Join(t.TempDir(), "db")})
	p := b.checkpoints
	p.stop()
	open := func(pragmas ...string) *conn {
		t.Helper()
		c, err := connect(b.path, pragmas...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.close(); err != nil {
				t.Error(err)
			}
		})
		return c
	}
	c, reader, other := open(), open(), open("busy_timeout = 60000")
	if err := reader.exec("BEGIN; SELECT count(*) FROM clock"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := write(b, "k", []byte("v")); err != nil {
			t.Fatal(err)
		}
	}
	p.once(t.Context(), c, alone)
	p.stall.since = p.stall.since.Add(-2 * stallTimeout)
	ended := make(chan error, 1)
	go func() {
		for { // it does not wait for the lock, which the loop below may hold
			n, err := other.queryInts("PRAGMA wal_checkpoint(RESTART)")
			if err != nil || n[1] >= 0 {
				ended <- err
				return
			}
		}
	}()
	for {
		n, err := c.queryInts("PRAGMA wal_checkpoint(PASSIVE)")
		if err != nil {
			t.Fatal(err)
		}
		if n[1] < 0 {
			break
		}
	}
	if !p.once(t.Context(), c, alone) {
		t.Error("the WAL is reported as checkpointed")
	}
	if p.stall.lasts(time.Now()) == 0 {
		t.Error("the stall ended")
	}
	if err := reader.exec("COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
