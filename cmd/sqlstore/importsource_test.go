package main

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// The case of a URL's scheme does not matter.
func TestSourceSchemes(t *testing.T) {
	for from, known := range map[string]bool{
		"sqlite:///none.db": true, "SQLite:///none.db": true, "Kine+SQLite:///none.db": true, "FTP://host": false,
	} {
		_, err := (&sourceFlags{from: from}).open(t.Context(), nil, io.Discard)
		if err == nil || known == errors.Is(err, errSettings) ||
			known && !strings.Contains(err.Error(), "no such file") {
			t.Errorf("%s: %v", from, err)
		}
	}
}
