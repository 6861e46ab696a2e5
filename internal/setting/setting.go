// Package setting names a server's settings in messages: as fields of sqlstore.Config for programs that embed the
// server, as flags for those who run the command.
package setting

import "sync/atomic"

var flags atomic.Pointer[map[string]string]

// UseFlags makes [Name] return the flag of a field, such as --cert-file for "TLS.Cert". It applies to the whole
// process, which belongs to a single command; a field without a flag keeps its name.
func UseFlags(byField map[string]string) { flags.Store(&byField) }

// Name returns the name by which the reader of a message knows the setting of a field of sqlstore.Config, such as
// "TLS.Cert".
func Name(field string) string {
	if byField := flags.Load(); byField != nil {
		if flag, ok := (*byField)[field]; ok {
			return "--" + flag
		}
	}
	return "Config." + field
}
