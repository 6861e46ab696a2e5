package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// levelFatal is the level of the line that explains why the process ends.
const levelFatal = slog.LevelError + 4

// etcdTime is the form of times in etcd's log.
const etcdTime = "2006-01-02T15:04:05.000000Z0700"

// etcdMessages are etcd's words for messages that launchers and etcd's own tests look for.
var etcdMessages = map[string]string{
	"client refused":       "rejected connection on client endpoint",
	"serving HTTP clients": "serving client traffic over HTTP only",
	"serving clients":      "serving client traffic",
	"slow request":         "request stats",
	"stopped":              "closed etcd server",
	"not defragmenting the database, too little of it is free": "Skipping defragmentation",
}

// logger logs as etcd does, to its outputs. After an error, the logger works too: it may have to report the error.
func (e *etcdMode) logger(level *slog.LevelVar) (_ *slog.Logger, closeLog func(), err error) {
	format, out, closeLog := formatJSON, io.Writer(os.Stderr), func() {}
	if e.options != nil {
		if l, err := parseLevel(e.options.Text("log-level")); err == nil {
			level.Set(l)
		}
		if e.options.Text("log-format") == formatConsole {
			format = formatConsole
		}
		if out, closeLog, err = e.outputs(); err != nil {
			out, closeLog = os.Stderr, func() {}
		}
	}
	return slog.New(newEtcdHandler(out, format, level)), closeLog, err
}

// etcdHandler writes lines as etcd's logger does: JSON with level, ts, caller and msg first, or the same with tabs.
type etcdHandler struct {
	slog.Handler // writes the attributes to line, as a JSON object
	out          io.Writer
	console      bool
	mu           *sync.Mutex
	line         *bytes.Buffer
}

func newEtcdHandler(out io.Writer, format string, level slog.Leveler) *etcdHandler {
	line := &bytes.Buffer{}
	attributes := slog.NewJSONHandler(line, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
				return slog.Attr{}
			}
			if a.Value.Kind() == slog.KindDuration {
				a.Value = slog.StringValue(a.Value.Duration().String())
			}
			return safeError(a)
		},
	})
	return &etcdHandler{attributes, out, format == formatConsole, &sync.Mutex{}, line}
}

// Handle implements [slog.Handler].
func (h *etcdHandler) Handle(ctx context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.line.Reset()
	if err := h.Handler.Handle(ctx, r); err != nil {
		return err
	}
	text := cmp.Or(etcdMessages[r.Message], r.Message)
	attributes := bytes.TrimSpace(h.line.Bytes())
	when, level, where := r.Time.Format(etcdTime), levelName(r.Level), caller(r.PC)
	if h.console {
		line := strings.Join([]string{when, level, where, text}, "\t")
		if !bytes.Equal(attributes, []byte("{}")) {
			line += "\t" + string(attributes)
		}
		_, err := io.WriteString(h.out, line+"\n")
		return err
	}
	message, err := json.Marshal(text)
	if err != nil {
		return err
	}
	head := fmt.Sprintf(`{"level":%q,"ts":%q,"caller":%q,"msg":%s`, level, when, where, message)
	if rest := attributes[1:]; len(rest) > 1 {
		head += ","
	}
	_, err = h.out.Write(append(append([]byte(head), attributes[1:]...), '\n'))
	return err
}

// WithAttrs implements [slog.Handler].
func (h *etcdHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &etcdHandler{h.Handler.WithAttrs(attrs), h.out, h.console, h.mu, h.line}
}

// WithGroup implements [slog.Handler].
func (h *etcdHandler) WithGroup(name string) slog.Handler {
	return &etcdHandler{h.Handler.WithGroup(name), h.out, h.console, h.mu, h.line}
}

func levelName(l slog.Level) string {
	switch {
	case l >= levelFatal:
		return "fatal"
	case l >= slog.LevelError:
		return "error"
	case l >= slog.LevelWarn:
		return "warn"
	case l >= slog.LevelInfo:
		return "info"
	}
	return "debug"
}

// caller returns the package's directory, the file and the line of a call.
func caller(pc uintptr) string {
	frame, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	if frame.File == "" {
		return ""
	}
	dir, file := filepath.Split(frame.File)
	return fmt.Sprintf("%s/%s:%d", filepath.Base(dir), file, frame.Line)
}
