package hostile

import (
	"fmt"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/testing/env"
	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// round is the amount of abuse, and how soon the well-behaved client must get its answers.
type round struct {
	full     bool
	time     time.Duration // of one attack, at most
	linger   time.Duration // how long what an attack left open stays open
	promptly time.Duration
}

// roundFromEnv returns the short round unless the environment asks for the full one. The requirement is two seconds;
// the short round allows more because it shares its processors with other programs.
func roundFromEnv() round {
	if env.Whole.Text() == "" {
		return round{time: 5 * time.Second, linger: time.Second, promptly: 6 * time.Second}
	}
	return round{full: true, time: time.Minute, linger: 10 * time.Second, promptly: 2 * time.Second}
}

// What a server may use more after an abuse than before, as its own work makes usage vary, and how soon it must be down
// to that.
const (
	spareHeap       = 8 << 20
	spareGoroutines = 20
	spareFiles      = 32 // a pool of connections to a database, too
	spareLog        = 64 << 10
	settleTime      = 30 * time.Second
)

// result is what an abuse did to a server and its other clients.
type result struct {
	Done    int           // of the abuse
	Took    time.Duration // the abuse
	Ended   bool          // whether the server exited
	Worst   time.Duration // latency of the well-behaved client
	Failed  string        // its first error
	Peak    int64         // bytes of memory taken during the abuse
	Settled time.Duration // time until the resources were released
	Left    usage         // what was not released in the end
}

// withstand abuses a server while a well-behaved client measures it.
func withstand(t *testing.T, a abuse, secure bool) {
	r := roundFromEnv()
	v := startMeasured(t, secure, a.args...)
	res := measure(t, v, a, r)
	res.report(t)
	if !servers.TargetIsEtcd() {
		res.check(t, a, r)
	}
}

func measure(t *testing.T, v *victim, a abuse, r round) result {
	t.Helper()
	var res result
	v.fill(t, max(a.objects, usualObjects), objectBytes)
	p, err := startProbe(v.target())
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	p.await(t, probeConnects+1) // each kind of its connections has been opened once
	before := v.mustUsage(t)
	calm := v.mustStatus(t, "VmRSS")
	if err := v.forgetPeak(); err != nil {
		t.Fatal(err)
	}
	n := a.short
	if r.full {
		n = a.full
	}
	began := time.Now()
	attack := startAttacker(t, order{Abuse: a.name, Endpoint: v.client, CA: v.ca, Count: n, Time: r.time})
	o := <-attack.out
	res.Done, res.Took = o.Done, time.Since(began)
	if a.lingers {
		select {
		case <-time.After(r.linger):
		case <-v.Exited():
		}
	}
	attack.end()
	gone := time.Now()
	for {
		if res.Ended = v.ended(); res.Ended {
			break
		}
		if now, err := v.usage(); err == nil { // otherwise it does not answer at all
			res.Left, res.Settled = now.less(before), time.Since(gone)
			if !res.Left.tooMuch(a) {
				break
			}
		}
		if time.Since(gone) > settleTime {
			break
		}
		pauseBetweenLooks()
	}
	if res.Ended {
		return res
	}
	res.Peak = v.mustStatus(t, "VmHWM") - calm
	p.stop()
	res.Worst = p.worst
	if p.failed != nil {
		res.Failed = p.failed.Error()
	}
	if o.Err != "" {
		t.Errorf("the attacker: %s", o.Err)
	}
	return res
}

func pauseBetweenLooks() { time.Sleep(100 * time.Millisecond) }

// tooMuch reports whether the server still uses more than it may.
func (u usage) tooMuch(a abuse) bool {
	return u.heap > spareHeap+a.keeps || u.goroutines > spareGoroutines || u.files > spareFiles
}

func (u usage) less(v usage) usage {
	return usage{
		u.heap - v.heap, u.resident - v.resident, u.goroutines - v.goroutines, u.files - v.files,
		u.logged - v.logged,
	}
}

// check fails the test if the server did what it must not do.
func (r *result) check(t *testing.T, a abuse, allowed round) {
	t.Helper()
	if r.Ended {
		t.Fatal("the server has ended")
	}
	if r.Failed != "" {
		t.Errorf("the well-behaved client got an error: %s", r.Failed)
	}
	if r.Worst > allowed.promptly {
		t.Errorf("the well-behaved client waited %v, want at most %v", r.Worst, allowed.promptly)
	}
	if r.Left.tooMuch(a) {
		t.Errorf("%v later the server still uses more than before: %v", r.Settled.Round(time.Second), r.Left)
	}
	most := a.peak
	if most == 0 {
		most = usualPeak
	}
	if r.Peak > most {
		t.Errorf("%d MiB of memory, want at most %d", r.Peak>>20, most>>20)
	}
	if r.Left.logged > spareLog {
		t.Errorf("%d bytes of log, want at most %d", r.Left.logged, spareLog)
	}
}

// report logs the result.
func (r *result) report(t *testing.T) {
	t.Helper()
	if r.Ended {
		t.Logf("%d done in %v: the server has ended", r.Done, r.Took.Round(time.Millisecond))
	} else {
		t.Logf("%d done in %v: worst answer %v, peak of %d MiB more, settled after %v with %v more", r.Done,
			r.Took.Round(time.Millisecond),
			r.Worst.Round(time.Millisecond), r.Peak>>20, r.Settled.Round(time.Millisecond), r.Left)
	}
}

func (u usage) String() string {
	return fmt.Sprintf("%.1f MiB of heap, %d goroutines, %d descriptors, %d bytes of log", float64(u.heap)/(1<<20),
		u.goroutines, u.files, u.logged)
}
