package main

import (
	"errors"
	"os"
	"strings"
	"testing"
)

func TestConfirm(t *testing.T) {
	for typed, want := range map[string]error{
		"0\n": nil, " 0 \r\n": nil, "0": nil,
		"": errNotConfirmed, "\n": errNotConfirmed, "y\n": errNotConfirmed, "00\n": errNotConfirmed,
		"1\n0\n": errNotConfirmed,
	} {
		var out strings.Builder
		if err := confirm(strings.NewReader(typed), &out, "version", "0"); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", typed, err, want)
		}
		if !strings.Contains(out.String(), "(0)") {
			t.Errorf("%q: asked %q", typed, out.String())
		}
	}
}

// A script cannot answer the question, whatever it pipes in.
func TestConfirmWithoutTerminal(t *testing.T) {
	in, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if _, err := pipe.WriteString("0\n"); err != nil {
		t.Fatal(err)
	}
	pipe.Close()
	var out strings.Builder
	if err := confirm(in, &out, "version", "0"); !errors.Is(err, errNotConfirmed) || out.Len() > 0 {
		t.Errorf("got %v after asking %q", err, out.String())
	}
}
