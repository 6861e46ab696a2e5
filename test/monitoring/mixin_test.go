package monitoring

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/pages"
)

// verdict is what docs/observe.md says about an alert or a panel of etcd's mixin.
type verdict struct {
	name, here string
	metrics    []string
}

// mixin returns the rows of that page's table.
func mixin(t *testing.T) (all []verdict) {
	t.Helper()
	named := regexp.MustCompile("`([a-z_]+)`")
	for _, p := range pages.All(t) {
		_, text, found := strings.Cut(p.Text, "\n### etcd's mixin\n")
		if p.Name != "docs/observe.md" || !found {
			continue
		}
		text, _, _ = strings.Cut(text, "\n## ")
		for line := range strings.Lines(text) {
			cells := strings.Split(strings.Trim(line, "|\n"), " | ")
			if len(cells) != 3 || strings.HasPrefix(cells[0], " Alert") {
				continue
			}
			v := verdict{name: strings.TrimSpace(cells[0]), here: cells[2]}
			for _, m := range named.FindAllStringSubmatch(cells[1], -1) {
				v.metrics = append(v.metrics, m[1])
			}
			all = append(all, v)
		}
	}
	return all
}

// wrong says which metrics of the table exist, or do not, unlike what it says.
func wrong(found series, table []verdict) (lines []string) {
	for _, v := range table {
		for _, m := range v.metrics {
			exists := m == "up" || len(found[m]) > 0 // Prometheus itself makes that one
			if exists == strings.HasPrefix(v.here, "missing") {
				lines = append(lines, "docs/observe.md says that "+v.name+" "+v.here+", but "+m+" is not so")
			}
		}
	}
	return lines
}

// Each row of the table says what becomes of it, and names metrics.
func TestMixin(t *testing.T) {
	table := mixin(t)
	if len(table) < 15 {
		t.Errorf("%d rows", len(table))
	}
	for _, v := range table {
		first := strings.FieldsFunc(v.here, func(r rune) bool { return r < 'a' || r > 'z' })
		if len(v.metrics) == 0 || !slices.Contains([]string{"works", "missing", "false"}, first[0]) {
			t.Errorf("%+v: want metrics, and that it works, is missing or is a false alarm", v)
		}
	}
}
