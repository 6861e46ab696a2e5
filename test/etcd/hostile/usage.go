package hostile

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
)

// usage is the resources that a server uses.
type usage struct {
	heap       int64 // bytes that are reachable, after a collection
	resident   int64 // bytes of the process's own memory
	goroutines int64
	files      int64 // descriptors
	logged     int64 // bytes, so far
}

// usage measures the resources that the server uses.
func (v *victim) usage() (usage, error) {
	u := usage{logged: v.logged.Load()}
	resp, err := v.http.Get(v.url + "/debug/pprof/heap?gc=1")
	if err != nil {
		return u, err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	for name, to := range map[string]*int64{"go_memstats_heap_alloc_bytes": &u.heap, "go_goroutines": &u.goroutines} {
		if *to, err = v.metric(name); err != nil {
			return u, err
		}
	}
	if u.resident, err = v.status("RssAnon"); err != nil {
		return u, err
	}
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", v.PID()))
	u.files = int64(len(entries))
	return u, err
}

// metric returns the value of a metric without labels.
func (v *victim) metric(name string) (int64, error) {
	resp, err := v.http.Get(v.MetricsURL() + "/metrics")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			value, err := strconv.ParseFloat(rest, 64)
			return int64(value), err
		}
	}
	return 0, fmt.Errorf("no metric %s", name)
}

// status returns a line of the process's status, in bytes.
func (v *victim) status(name string) (int64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.PID()))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("no %s in the process's status", name)
}

// forgetPeak makes VmHWM the most that the process takes from now on.
func (v *victim) forgetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", v.PID()), []byte("5"), 0)
}

func (v *victim) mustUsage(t *testing.T) usage {
	t.Helper()
	u, err := v.usage()
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func (v *victim) mustStatus(t *testing.T, name string) int64 {
	t.Helper()
	n, err := v.status(name)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// ended reports whether the server has exited.
func (v *victim) ended() bool {
	select {
	case <-v.Exited():
		return true
	default:
		return false
	}
}
