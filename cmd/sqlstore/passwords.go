package main

import (
	"log/slog"
	"regexp"
)

var (
	// urlPassword matches up to the last @: a password may contain characters that should have been escaped.
	urlPassword     = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://[^\s:/@"']*):[^\s"']*@`)
	keywordPassword = regexp.MustCompile(`(?i)(password\s*=\s*)('[^']*'|[^\s&"']+)`)
)

// withoutPasswords hides the passwords of URLs and of a database's parameters in the text of an error. No error of ours
// shows one, but a text given in the wrong place, such as a URL for the name of a file, is part of an error of the
// system or of a library.
func withoutPasswords(text string) string {
	text = urlPassword.ReplaceAllString(text, "${1}:xxxxx@")
	return keywordPassword.ReplaceAllString(text, "${1}xxxxx")
}

// safeError returns what a log may have of an attribute that can be an error.
func safeError(a slog.Attr) slog.Attr {
	if err, is := a.Value.Any().(error); is {
		a.Value = slog.StringValue(withoutPasswords(err.Error()))
	}
	return a
}
