package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// packagedFile is the configuration file that the packages install, packagedExample the list of all settings, and
// packagedData the only value in both that is not the program's default.
const (
	packagedFile    = "../../packaging/sqlstore.yaml"
	packagedExample = packagedFile + ".example"
	packagedData    = "/var/lib/sqlstore"
)

// packaging/sqlstore.yaml.example has every setting, with its default, as the command has it. It is valid, and so are
// all the defaults in it, and packaging/sqlstore.yaml.
func TestPackagedFile(t *testing.T) {
	text := packagedSettings()
	checkGenerated(t, packagedExample, text)
	installed, err := os.ReadFile(packagedFile)
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`(?m)^#([a-z])`).ReplaceAllString(text, "$1")
	for name, c := range map[string]struct {
		text string
		set  int
	}{"installed": {string(installed), 1}, "example": {text, 1}, "every line": {all, strings.Count(all, "\n\n")}} {
		s := &settings{}
		flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		s.register(flags)
		if err := applyFile(flags, map[string]bool{}, []byte(c.text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := s.finish(); err != nil || s.config.DataDir != packagedData {
			t.Errorf("%s: data directory %s, %v", name, s.config.DataDir, err)
		}
		keys := len(regexp.MustCompile(`(?m)^[a-z-]+:`).FindAllString(c.text, -1))
		if keys != c.set {
			t.Errorf("%s: %d keys, want %d", name, keys, c.set)
		}
		flags.VisitAll(func(f *pflag.Flag) {
			if value := f.Value.String(); value != f.DefValue && f.Name != "data-dir" {
				t.Errorf("%s: %s is %q, which is not the default", name, f.Name, value)
			}
		})
	}
}

// packagedSettings describes the flags of serve as a configuration file.
func packagedSettings() string {
	var out strings.Builder
	out.WriteString(`# All settings of the service sqlstore. A key is a flag of "sqlstore serve": see sqlstore-serve(1).
# Lines that begin with "#" and a key show defaults. Check a change with
#     sqlstore config check --config-file /etc/sqlstore/sqlstore.yaml
# "systemctl reload sqlstore" applies changes of the settings marked SIGHUP; others need "systemctl restart sqlstore".
`)
	find("serve").Flags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains(notInFile, f.Name) {
			return
		}
		usage := f.Usage
		if slices.Contains(reloadable, f.Name) {
			usage += " (SIGHUP)"
		}
		line := strings.TrimSuffix(fmt.Sprintf("#%s: %s", f.Name, f.DefValue), " ")
		if f.Name == "data-dir" {
			usage, line = "directory of a SQLite database", "data-dir: "+packagedData
		}
		fmt.Fprintf(&out, "\n%s%s\n", wrapped(usage), line)
	})
	return out.String()
}

// wrapped returns text as lines of comment, of at most 120 columns.
func wrapped(text string) string {
	var out strings.Builder
	line := "#"
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > 120 {
			out.WriteString(line + "\n")
			line = "#"
		}
		line += " " + word
	}
	return out.String() + line + "\n"
}
