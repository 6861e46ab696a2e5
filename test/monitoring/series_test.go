package monitoring

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
)

// series are what servers export: by name, the labels of each.
type series map[string][]map[string]string

var (
	sample = regexp.MustCompile(`(?m)^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? \S+$`)
	label  = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
)

// scrape adds the series of a server.
func (s series) scrape(t *testing.T, server *launch.Server) {
	t.Helper()
	resp, err := http.Get(server.MetricsURL() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range sample.FindAllStringSubmatch(string(text), -1) {
		labels := map[string]string{}
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			labels[l[1]] = l[2]
		}
		s[m[1]] = append(s[m[1]], labels)
	}
}

// matcher is a condition of a selector on a label.
type matcher struct{ label, operator, value string }

// selector is a metric in an expression, with its matchers.
type selector struct {
	metric   string
	matchers []matcher
}

var (
	// metrics of sqlstore; the recorded ones have colons.
	metric    = regexp.MustCompile(`\b((?:etcd|sqlstore|process|go|grpc_server)[_:][\w:]+)(?:\{([^}]*)\})?`)
	condition = regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
	grouping  = regexp.MustCompile(`\b(?:by|without|on|ignoring)\s*\(([^)]*)\)`)
	word      = regexp.MustCompile(`\w+`)
)

// attached are the labels that Prometheus adds to the series of a target.
var attached = []string{"job", "instance", "cluster", "namespace"}

// selectors returns those of an expression. A recorded metric counts as the one from which it is made.
func selectors(expression string, recorded map[string]string) (all []selector) {
	for _, m := range metric.FindAllStringSubmatch(expression, -1) {
		s := selector{metric: m[1]}
		if from := recorded[m[1]]; from != "" {
			s.metric = from
		}
		for _, c := range condition.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(attached, c[1]) {
				s.matchers = append(s.matchers, matcher{c[1], c[2], c[3]})
			}
		}
		all = append(all, s)
	}
	return all
}

// lacks returns what an expression names and no server exports, "" if there is no such thing.
func (s series) lacks(e *expression, recorded map[string]string) string {
	exported := map[string]bool{}
	for _, want := range selectors(e.text, recorded) {
		if !slices.ContainsFunc(s[want.metric], want.matches) {
			return "a series for " + want.String()
		}
		for _, labels := range s[want.metric] {
			for l := range labels {
				exported[l] = true
			}
		}
	}
	named := slices.Clone(e.legend)
	for _, g := range grouping.FindAllStringSubmatch(e.text, -1) {
		named = append(named, word.FindAllString(g[1], -1)...)
	}
	for _, l := range named {
		if !exported[l] && !slices.Contains(attached, l) {
			return "the label " + l
		}
	}
	return ""
}

// matches reports whether a series has the labels that the selector names, with values that match.
func (s *selector) matches(labels map[string]string) bool {
	return !slices.ContainsFunc(s.matchers, func(m matcher) bool {
		value, ok := labels[m.label]
		equal := value == m.value
		if m.operator == "=~" || m.operator == "!~" {
			equal = regexp.MustCompile("^(?:" + m.value + ")$").MatchString(value)
		}
		return !ok || equal == strings.HasPrefix(m.operator, "!")
	})
}

// String returns the selector as it stands in an expression.
func (s *selector) String() string { return fmt.Sprintf("%s%q", s.metric, s.matchers) }
