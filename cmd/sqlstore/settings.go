package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/yamlfile"
)

// errSettings is returned for invalid settings.
var errSettings = errors.New("bad settings")

// notSettings are flags that request something other than serving; they exist only as flags. notInFile are flags that a
// configuration file cannot set.
var (
	notSettings = []string{"help", "version"}
	notInFile   = append([]string{"config-file", outputFlag}, notSettings...)
)

// emptyInFile annotates the flags that have an empty value in the configuration file.
const emptyInFile = "empty-in-file"

// applySettings sets the flags that the command line did not, from the environment or else from the file given with
// --config-file.
func applySettings(flags *pflag.FlagSet, getenv func(string) (string, bool)) error {
	set := given(flags)
	if err := unsetTexts(flags, set); err != nil {
		return err
	}
	if err := applyEnvironment(flags, set, getenv); err != nil {
		return err
	}
	file := flags.Lookup("config-file")
	if file == nil || file.Value.String() == "" {
		return nil
	}
	path := file.Value.String()
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read --config-file: %w", err)
	}
	if err := applyFile(flags, set, text); err != nil {
		return fmt.Errorf("--config-file %s: %w", path, err)
	}
	return nil
}

// applyEnvironment sets the flags that are not in set from variables, and adds them to it. Like etcd, it takes an empty
// variable for one that is not set.
func applyEnvironment(flags *pflag.FlagSet, set map[string]bool, getenv func(string) (string, bool)) error {
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		name := variable(f.Name)
		value, ok := getenv(name)
		if !ok || set[f.Name] || value == "" && ignoresEmpty(f) || slices.Contains(notSettings, f.Name) {
			return
		}
		set[f.Name] = true
		if err := flags.Set(f.Name, value); err != nil {
			errs = append(errs, fmt.Errorf("%w: environment variable %s: %w", errSettings, name, valueError(err)))
		}
	})
	return errors.Join(errs...)
}

func applyFile(flags *pflag.FlagSet, set map[string]bool, text []byte) error {
	values, err := yamlfile.Parse(text)
	if err != nil {
		return fmt.Errorf("%w: %w", errSettings, err)
	}
	var errs []error
	for name, node := range values {
		f := flags.Lookup(name)
		if f == nil || slices.Contains(notInFile, name) {
			errs = append(errs, fmt.Errorf("%w: line %d: unknown key %q%s", errSettings, node.Line, name,
				didYouMean(similarFlags(flags, name))))
			continue
		}
		if set[name] {
			continue
		}
		if err := setNode(flags, f, &node); err != nil {
			errs = append(errs, fmt.Errorf("%w: line %d: %s: %w", errSettings, node.Line, name, err))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// setNode sets a flag to the value of a YAML scalar or, if the flag takes several values, of a list of scalars.
func setNode(flags *pflag.FlagSet, f *pflag.Flag, node *yaml.Node) error {
	switch node.Kind {
	case yaml.ScalarNode:
		if valueOf(node) == "" && ignoresEmpty(f) {
			return flags.SetAnnotation(f.Name, emptyInFile, nil)
		}
		return valueError(flags.Set(f.Name, valueOf(node)))
	case yaml.SequenceNode:
		list, ok := f.Value.(pflag.SliceValue)
		if !ok {
			return errors.New("takes one value, not a list")
		}
		var values []string
		if err := node.Decode(&values); err != nil {
			return err
		}
		if len(values) == 0 {
			if err := flags.SetAnnotation(f.Name, emptyInFile, nil); err != nil {
				return err
			}
		}
		f.Changed = f.Changed || len(values) > 0 // Replace does not say so
		return list.Replace(values)
	}
	return errors.New("takes a plain value or a list")
}

// valueOf returns the text of a scalar, "" for null.
func valueOf(node *yaml.Node) string {
	if node.Tag == "!!null" {
		return ""
	}
	return node.Value
}

// unsetTexts gives the texts that are empty on the command line, and so are not in set, their defaults.
func unsetTexts(flags *pflag.FlagSet, set map[string]bool) error {
	var errs []error
	flags.Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && f.DefValue != "" && !set[f.Name] {
			errs = append(errs, f.Value.Set(f.DefValue))
			f.Changed = false
		}
	})
	return errors.Join(errs...)
}

// given returns the flags that the command line sets. An empty value, as of a variable of a shell that is missing, does
// not hide what a variable or the file says.
func given(f *pflag.FlagSet) map[string]bool {
	set := map[string]bool{}
	f.Visit(func(fl *pflag.Flag) {
		if fl.Changed && (!isEmpty(fl) || !ignoresEmpty(fl)) {
			set[fl.Name] = true
		}
	})
	return set
}
