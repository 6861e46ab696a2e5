package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

const outputFlag = "output"

// output is the flag for the form of what a command prints: a table for people, or JSON or YAML for programs.
type output struct {
	form  string
	forms []string
}

// register defines the flag. The first form is the default.
func (o *output) register(cmd *cobra.Command, forms ...string) {
	o.forms = forms
	cmd.Flags().StringVarP(&o.form, outputFlag, "o", forms[0], "form of the output: "+oneOf(forms))
	_ = cmd.RegisterFlagCompletionFunc(outputFlag, cobra.FixedCompletions(forms, cobra.ShellCompDirectiveNoFileComp))
}

// oneOf joins names with "or".
func oneOf(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

func (o *output) check() error {
	if !slices.Contains(o.forms, o.form) {
		return fmt.Errorf("%w: --output %q is not %s", errSettings, o.form, oneOf(o.forms))
	}
	return nil
}

// print writes data for programs, or what table writes for people.
func (o *output) print(w io.Writer, data any, table func(io.Writer) error) error {
	if o.form == "json" || o.form == "yaml" {
		return encode(w, o.form, data)
	}
	return table(w)
}

// encode writes data as JSON, indented as kubectl does, or as YAML.
func encode(w io.Writer, form string, data any) error {
	if form == "yaml" {
		text, err := yaml.Marshal(data)
		if err == nil {
			_, err = w.Write(text)
		}
		return err
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "    ")
	return e.Encode(data)
}

// columns writes a table, whose first row is the heading.
func columns(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		_, _ = fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}

// keyed is a key for programs. JSON has U+FFFD in the place of what is not UTF-8, so such a key is also there in
// base64, as in the list/watch API.
type keyed struct {
	Key       string `json:"key"`
	KeyBase64 []byte `json:"keyBase64,omitempty"`
}

func keyOf(key string) keyed {
	if utf8.ValidString(key) {
		return keyed{Key: key}
	}
	return keyed{key, []byte(key)}
}
