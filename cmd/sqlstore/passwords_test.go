package main

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
)

// A URL given in the wrong place is part of an error, which hides its password. Errors without passwords stay as they
// are.
func TestErrorsHidePasswords(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"open postgres://u:secret@h/d: no such file", "open postgres://u:xxxxx@h/d: no such file"},
		{"unknown flag: --datastorepostgres://u:secret@h/d", "unknown flag: --datastorepostgres://u:xxxxx@h/d"},
		{`bad "s3+x://u:se:cr/et@secret@h"`, `bad "s3+x://u:xxxxx@h"`},
		{"host=h password=secret user=u", "host=h password=xxxxx user=u"},
		{"password = 'sec ret'", "password = xxxxx"},
		{"postgres://h/d?sslpassword=x&Password=secret", "postgres://h/d?sslpassword=xxxxx&Password=xxxxx"},
		{"listen on http://127.0.0.1:2379: in use", "listen on http://127.0.0.1:2379: in use"},
		{"postgres://u@h/d: the password is wrong", "postgres://u@h/d: the password is wrong"},
	} {
		if got := withoutPasswords(c.text); got != c.want {
			t.Errorf("%q became %q, want %q", c.text, got, c.want)
		}
		for _, handler := range []func(io.Writer) slog.Handler{
			func(out io.Writer) slog.Handler { return newHandler(out, formatJSON, false, slog.LevelInfo) },
			func(out io.Writer) slog.Handler { return newHandler(out, formatConsole, false, slog.LevelInfo) },
			func(out io.Writer) slog.Handler { return newEtcdHandler(out, formatJSON, slog.LevelInfo) },
		} {
			var out bytes.Buffer
			slog.New(handler(&out)).Error("failed", "error", errors.New(c.text))
			if strings.Contains(out.String(), "secret") || strings.Contains(out.String(), "sec ret") {
				t.Errorf("logged as %s", &out)
			}
		}
	}
}
