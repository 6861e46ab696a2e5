package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestEverywhere(t *testing.T) {
	for url, want := range map[string]string{
		"http://127.0.0.1:4001": "http://0.0.0.0:4001",
		"https://[::1]:2379":    "https://0.0.0.0:2379",
	} {
		if got := everywhere(url); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

func TestLoopbackOnly(t *testing.T) {
	for _, c := range []struct {
		urls []string
		want bool
	}{
		{[]string{"http://localhost:2379"}, true},
		{[]string{"http://127.0.0.1:2379", "https://[::1]:2379"}, true},
		{[]string{"http://127.0.0.1:2379", "http://10.0.0.1:2379"}, false},
		{[]string{"http://0.0.0.0:2379"}, false},
		{[]string{"unix:///run/sqlstore.sock"}, false},
	} {
		if got := loopbackOnly(c.urls); got != c.want {
			t.Errorf("%v: %v", c.urls, got)
		}
	}
}

func TestWarnPlaintext(t *testing.T) {
	var text bytes.Buffer
	warnPlaintext(slog.New(slog.NewTextHandler(&text, nil)), []string{
		"http://127.0.0.1:1", "https://0.0.0.0:2", "http://0.0.0.0:3", "unix:///run/s",
	})
	if strings.Count(text.String(), "level=WARN") != 1 || !strings.Contains(text.String(), "url=http://0.0.0.0:3") {
		t.Error(text.String())
	}
}
