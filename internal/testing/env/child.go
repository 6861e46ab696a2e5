package env

import "strings"

// AsChild returns the variable that makes a process of the test's own binary play a role, with an argument.
func AsChild(role, argument string) string { return Child.With(role + " " + argument) }

// IsChild reports whether this process plays the role, and with which argument.
func IsChild(role string) (argument string, ok bool) {
	return strings.CutPrefix(Child.Text(), role+" ")
}
