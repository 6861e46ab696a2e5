package etcdflags

import (
	"fmt"
	"strings"
)

const usage = `Usage:

  etcd [flags]
    Serve the etcd API on a SQL database.

  etcd --version
    Print the version.

  etcd -h | --help
    Print all flags.

  etcd --config-file FILE
    Read the settings from a YAML file, which replaces etcd's flags and variables.
`

// help describes every flag.
func help(own []Own) string {
	var out strings.Builder
	out.WriteString(usage)
	for _, g := range table() {
		fmt.Fprintf(&out, "\n%s:\n", g.title)
		for _, d := range g.flags {
			line(&out, d.name, d.value.String(), d.usage, d.use)
		}
	}
	out.WriteString("\nsqlstore:\n")
	for _, f := range own {
		line(&out, f.Name, f.Value.String(), f.Usage, Passed)
	}
	return out.String()
}

func line(out *strings.Builder, name, value, usage string, use Use) {
	fmt.Fprintf(out, "  --%s '%s'\n", name, value)
	if use == Raft || use == Storage {
		usage += " (no effect here)"
	}
	if usage != "" {
		fmt.Fprintf(out, "    %s%s.\n", strings.ToUpper(usage[:1]), usage[1:])
	}
}
