package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write docs/configuration.md and packaging/sqlstore.yaml.example anew")

// docs/configuration.md shows the flags as the command has them.
func TestConfigurationPage(t *testing.T) {
	const path = "../../docs/configuration.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- flags: begin -->\n", "<!-- flags: end -->"
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place between %q and %q", path, begin, end)
	}
	checkGenerated(t, path, before+begin+flagTables()+"\n"+end+after)
}

// checkGenerated compares a file with what the flags make of it, or writes it anew.
func checkGenerated(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s does not show the flags as they are: run 'make docs' and commit it (%v)", path, err)
	}
}

// The configuration file in the documentation is valid.
func TestDocumentedFile(t *testing.T) {
	page, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(page), "# /etc/sqlstore/sqlstore.yaml\n")
	text, _, closed := strings.Cut(after, "```")
	if !ok || !closed {
		t.Fatal("docs/kubernetes.md shows no configuration file")
	}
	s := &settings{}
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	s.register(flags)
	if err := applyFile(flags, map[string]bool{}, []byte(text)); err != nil {
		t.Error(err)
	}
	if err := s.finish(); err != nil {
		t.Error(err)
	}
}

// flagTables describes the flags of every command that has its own, in Markdown.
func flagTables() string {
	var out strings.Builder
	table(&out, find("serve")) // the root command has the same flags
	var each func(c *cobra.Command)
	each = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if slices.Contains([]string{"serve", "config", "doctor"}, sub.Name()) {
				continue // the last two, or their subcommands, have the flags of serve
			}
			table(&out, sub)
			each(sub)
		}
	}
	each(command())
	return out.String()
}

func find(name string) *cobra.Command {
	c, _, _ := command().Find([]string{name}) // the root if no command has the name
	return c
}

func table(out *strings.Builder, c *cobra.Command) {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	all.SortFlags = false
	all.AddFlagSet(c.PersistentFlags())
	all.AddFlagSet(c.Flags())
	if !all.HasAvailableFlags() {
		return
	}
	serves := c.Name() == "serve"
	fmt.Fprintf(out, "\n### %s\n\n%s.\n\n| Flag | Default | Meaning |\n|---|---|---|\n", c.CommandPath(), c.Short)
	all.VisitAll(func(f *pflag.Flag) {
		usage := f.Usage
		if serves && slices.Contains(reloadable, f.Name) {
			usage += " (SIGHUP)"
		}
		fmt.Fprintf(out, "| `--%s` | %s | %s |\n", f.Name, defaultOf(f), strings.ReplaceAll(usage, "<", "&lt;"))
	})
}

func defaultOf(f *pflag.Flag) string {
	value := strings.Trim(f.DefValue, "[]")
	if value == "" {
		return ""
	}
	return "`" + value + "`"
}
