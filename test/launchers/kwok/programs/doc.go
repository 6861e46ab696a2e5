// Package programs represents a module without code: its go.mod names kwok and kwokctl as tools, with the dependencies
// of their own release.
package programs
