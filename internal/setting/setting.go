// Package setting names a server's settings in messages: as fields of sqlstore.Config for programs that embed the
// server, as flags for those who run the command.
package setting

import "sync/atomic"

var flags atomic.Pointer[map[string]string]

// UseFlags makes [Name] return the flag of a field, such as --cert-file for "TLS.Cert". It holds for the whole process,
// which one command owns; a field without a flag keeps its name.
func UseFlags(byField map[string]string) { flags.Store(&byField) }

// Name returns what the reader of a message calls the setting of a field of sqlstore.Config, such as "TLS.Cert".
func Name(field string) string {
	if byField := flags.Load(); byField != nil {
		if flag, ok := (*byField)[field]; ok {
			return "--" + flag
		}
	}
	return "Config." + field
}
