package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// The values of --log-format.
const (
	formatAuto    = "auto" // console on a terminal, else JSON
	formatJSON    = "json"
	formatConsole = "console"
)

// logger logs to standard error in the requested format.
func (s *settings) logger(level *slog.LevelVar) *slog.Logger {
	if l, err := parseLevel(s.logLevel); err == nil {
		level.Set(l)
	}
	return slog.New(newHandler(os.Stderr, s.logFormat, term.IsTerminal(int(os.Stderr.Fd())), level))
}

func newHandler(out io.Writer, format string, terminal bool, level slog.Leveler) slog.Handler {
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: loggedAttr}
	if format == formatConsole || format != formatJSON && terminal {
		return newConsole(out, o)
	}
	return slog.NewJSONHandler(out, o)
}

// loggedAttr writes 4 ms where slog's JSON has nanoseconds, and errors without passwords.
func loggedAttr(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(readable(a.Value.Duration()))
	}
	return safeError(a)
}

// readable formats a duration for people: 12 us, 4 ms, 1.25 s, 2m5s.
func readable(d time.Duration) string {
	if d >= time.Minute || d <= -time.Minute {
		return d.Round(time.Second).String()
	}
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "us"}} {
		if d.Abs() >= unit.size {
			return fmt.Sprintf("%.3g %s", float64(d)/float64(unit.size), unit.name)
		}
	}
	return fmt.Sprintf("%d ns", d)
}

// consoleLog writes lines for people: time, level and message, then the attributes as slog's text handler formats them.
type consoleLog struct {
	slog.Handler // writes the attributes to line
	out          io.Writer
	mu           *sync.Mutex
	line         *bytes.Buffer
}

func newConsole(out io.Writer, o *slog.HandlerOptions) *consoleLog {
	replace := o.ReplaceAttr
	attributes := *o
	attributes.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
			return slog.Attr{}
		}
		return replace(groups, a)
	}
	line := &bytes.Buffer{}
	return &consoleLog{slog.NewTextHandler(line, &attributes), out, &sync.Mutex{}, line}
}

// Handle implements [slog.Handler].
func (c *consoleLog) Handle(ctx context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.line.Reset()
	fmt.Fprintf(c.line, "%s %-5s %s ", r.Time.Format("2006-01-02 15:04:05.000"), r.Level, r.Message)
	if err := c.Handler.Handle(ctx, r); err != nil {
		return err
	}
	_, err := c.out.Write(c.line.Bytes())
	return err
}

// WithAttrs implements [slog.Handler].
func (c *consoleLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &consoleLog{c.Handler.WithAttrs(attrs), c.out, c.mu, c.line}
}

// WithGroup implements [slog.Handler].
func (c *consoleLog) WithGroup(name string) slog.Handler {
	return &consoleLog{c.Handler.WithGroup(name), c.out, c.mu, c.line}
}
