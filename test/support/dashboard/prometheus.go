package dashboard

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"testing"
	"time"
)

// timeout limits the wait for data. The intervals of a Prometheus as Debian installs it are 15 s.
const timeout = 2 * time.Minute

// Prometheus is one that runs.
type Prometheus struct {
	URL    string
	Client *http.Client
}

// Sample is the last one of a series.
type Sample struct {
	Labels map[string]string
	Value  float64
}

// get asks the API.
func (p *Prometheus) get(path string, query url.Values, into any) error {
	resp, err := p.Client.Get(p.URL + "/api/v1/" + path + "?" + query.Encode())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer := struct {
		Error string
		Data  any
	}{Data: into}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %w", resp.Status, err)
	}
	if answer.Error != "" {
		return fmt.Errorf("%s: %s", query, answer.Error)
	}
	return nil
}

// Query evaluates an expression whose value is a vector.
func (p *Prometheus) Query(expr string) ([]Sample, error) {
	var data struct {
		Result []struct {
			Metric map[string]string
			Value  [2]any // the time, and the value as text
		}
	}
	if err := p.get("query", url.Values{"query": {expr}}, &data); err != nil {
		return nil, err
	}
	var samples []Sample
	for _, r := range data.Result {
		value, err := strconv.ParseFloat(fmt.Sprint(r.Value[1]), 64)
		if err != nil {
			return nil, err
		}
		samples = append(samples, Sample{r.Metric, value})
	}
	return samples, nil
}

// Rules returns the number of rules that Prometheus has.
func (p *Prometheus) Rules() (rules int, err error) {
	var data struct {
		Groups []struct{ Rules []struct{ Name string } }
	}
	err = p.get("rules", nil, &data)
	for _, g := range data.Groups {
		rules += len(g.Rules)
	}
	return rules, err
}

// Choose returns all values of the variables, as if All was chosen of each. It fails if there are none.
func (p *Prometheus) Choose(tb testing.TB) Choice {
	tb.Helper()
	choice := Choice{}
	for _, v := range Variables(tb) {
		m := values.FindStringSubmatch(choice.Expand(tb, v.Query))
		var found []string
		if err := p.get("label/"+m[2]+"/values", url.Values{"match[]": {m[1]}}, &found); err != nil || len(found) == 0 {
			tb.Fatalf("%s has the values %q, %v", m[0], found, err)
		}
		choice[v.Name] = found
	}
	return choice
}

// Lacks says what is wrong with what a target shows, "" if it has data and the labels of its legend.
func (p *Prometheus) Lacks(tb testing.TB, target *Target, choice Choice) string {
	tb.Helper()
	samples, err := p.Query(choice.Expand(tb, target.Expr))
	if err != nil {
		return err.Error()
	}
	for _, s := range samples {
		for _, l := range target.Legend {
			if s.Labels[l] == "" {
				return fmt.Sprintf("a series %v without the label %s", s.Labels, l)
			}
		}
	}
	if !slices.ContainsFunc(samples, func(s Sample) bool { return !math.IsNaN(s.Value) && !math.IsInf(s.Value, 0) }) {
		return fmt.Sprintf("no data: %v", samples)
	}
	return ""
}

// poll calls done until it returns true, or for too long.
func poll(done func() bool) {
	tick, end := time.NewTicker(time.Second), time.After(timeout)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-end:
			return
		}
	}
}

// AwaitServers waits until Prometheus has scraped as many servers, all of which answer.
func (p *Prometheus) AwaitServers(tb testing.TB, servers int) {
	tb.Helper()
	var up []Sample
	var err error
	poll(func() bool {
		up, err = p.Query(`up{job="sqlstore"} == 1`)
		return len(up) == servers
	})
	if len(up) != servers {
		tb.Fatalf("up: %v, %v, want %d servers", up, err, servers)
	}
}

// Await works until each target has had data once.
func (p *Prometheus) Await(tb testing.TB, targets []Target, choice Choice, work func()) {
	tb.Helper()
	targets = slices.Clone(targets)
	lacks := map[string]string{}
	poll(func() bool {
		work()
		targets = slices.DeleteFunc(targets, func(t Target) bool {
			lacks[t.Expr] = p.Lacks(tb, &t, choice)
			return lacks[t.Expr] == ""
		})
		return len(targets) == 0
	})
	for _, t := range targets {
		tb.Errorf("the panel %q: %s\nhas %s", t.Panel, choice.Expand(tb, t.Expr), lacks[t.Expr])
	}
}

// Healthy works until each panel has had data once, except for those that show faults and those that are absent, each
// with the reason. Those must have none.
func (p *Prometheus) Healthy(tb testing.TB, choice Choice, absent map[string]string, work func()) {
	tb.Helper()
	var data, none []Target
	for _, t := range Targets(tb) {
		switch {
		case absent[t.Panel] != "":
			none = append(none, t)
		case !t.Fault():
			data = append(data, t)
		}
	}
	p.Await(tb, data, choice, work)
	for _, t := range none {
		if p.Lacks(tb, &t, choice) == "" {
			tb.Errorf("the panel %q has data, although %s", t.Panel, absent[t.Panel])
		}
	}
	for panel := range absent {
		if !slices.ContainsFunc(none, func(t Target) bool { return t.Panel == panel }) {
			tb.Errorf("there is no panel %q", panel)
		}
	}
}
