package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestLogFormats(t *testing.T) {
	for _, c := range []struct {
		format   string
		terminal bool
		console  bool
	}{
		{formatAuto, true, true},
		{formatAuto, false, false},
		{formatJSON, true, false},
		{formatConsole, false, true},
	} {
		var out bytes.Buffer
		log := slog.New(newHandler(&out, c.format, c.terminal, slog.LevelInfo)).With("who", "me").WithGroup("g")
		log.Debug("not this")
		log.Warn("look here", "level", 3, "took", 4012345*time.Nanosecond, "error", errors.New("two\nlines"))
		if !c.console {
			var line map[string]any
			if err := json.Unmarshal(out.Bytes(), &line); err != nil {
				t.Fatal(err)
			}
			if g, ok := line["g"].(map[string]any); line["msg"] != "look here" || !ok || g["took"] != "4.01 ms" {
				t.Errorf("%s, terminal %v: %s", c.format, c.terminal, &out)
			}
			continue
		}
		_, rest, _ := strings.Cut(out.String(), " ")
		_, rest, _ = strings.Cut(rest, " ")
		if want := `WARN  look here who=me g.level=3 g.took="4.01 ms" g.error="two\nlines"` + "\n"; rest != want {
			t.Errorf("%s, terminal %v: %q, want %q", c.format, c.terminal, rest, want)
		}
	}
}

func TestReadableDurations(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 ns", 12300: "12.3 us", 4 * time.Millisecond: "4 ms", 10 * time.Second: "10 s",
		-1500 * time.Millisecond:              "-1.5 s",
		59*time.Second + 900*time.Millisecond: "59.9 s", 125*time.Second + 400*time.Millisecond: "2m5s",
	} {
		if got := readable(d); got != want {
			t.Errorf("%d is %q, want %q", d, got, want)
		}
	}
}
