package changes

import (
	"encoding/json"
	"slices"
	"testing"
)

func object(t *testing.T, text string) (fields map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}

// Each field that differs is named by its path, and items of a list by their names.
func TestFields(t *testing.T) {
	for name, c := range map[string]struct {
		from, to string
		want     []string
	}{
		"equal": {`{"a":{"b":[1,2]}}`, `{"a":{"b":[1,2]}}`, nil},
		"value": {`{"a":{"b":1,"c":"x"}}`, `{"a":{"b":2,"c":"y z"}}`, []string{"a.b: 1 → 2", `a.c: x → "y z"`}},
		"added and gone": {
			`{"a":{"gone":1}}`, `{"a":{"new":{"x":[]}}}`, []string{"-a.gone", `+a.new: {"x":[]}`},
		},
		"label": {`{"l":{"a.b/c":"1"}}`, `{"l":{"a.b/c":"2"}}`, []string{`l["a.b/c"]: "1" → "2"`}},
		"by name": {
			`{"c":[{"name":"x","image":"a"},{"name":"y"}]}`, `{"c":[{"name":"y"},{"name":"x","image":"b"}]}`,
			[]string{"c[x].image: a → b"},
		},
		"item added": {`{"c":[{"name":"x"}]}`, `{"c":[{"name":"x"},{"name":"z"}]}`, []string{`+c[z]: {"name":"z"}`}},
		"by type": {
			`{"c":[{"type":"Ready","status":"False"}]}`, `{"c":[{"type":"Ready","status":"True"}]}`,
			[]string{"c[Ready].status: False → True"},
		},
		"by position": {`{"a":[1,2]}`, `{"a":[1,3]}`, []string{"a[1]: 2 → 3"}},
		"longer":      {`{"a":[1]}`, `{"a":[1,2]}`, []string{"a: [1] → [1,2]"}},
		"other type":  {`{"a":[1]}`, `{"a":{"b":1}}`, []string{`a: [1] → {"b":1}`}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range Fields(object(t, c.from), object(t, c.to)) {
				got = append(got, f.String())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestLine(t *testing.T) {
	fields := []Field{{"a", 1, 2}, {"b", nil, "a text that is longer than a line of a table can show"}, {"c", 1, nil}}
	want := `a: 1 → 2, +b: "a text that is longer than a line of a…, and 1 more`
	if got := Line(fields, 2); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
