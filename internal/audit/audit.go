// Package audit writes the audit log: a line of JSON for each call, with who called what and what came of it. It never
// contains values, passwords or tokens.
//
// Calls do not wait for the log: a queue of limited size leads to its file, and an entry that finds it full is lost. A
// log that loses entries, or that cannot be written, reports it; see [Log.Err].
package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// Level selects the calls to log.
type Level int

// The levels.
const (
	// Writes are calls that change something, and logins.
	Writes Level = iota
	// All are all calls.
	All
)

// ParseLevel parses "writes" or "all".
func ParseLevel(text string) (Level, error) {
	switch text {
	case "writes":
		return Writes, nil
	case "all":
		return All, nil
	}
	return 0, fmt.Errorf("the audit level %q is neither writes nor all", text)
}

// Stdout is the path that stands for standard output.
const Stdout = "-"

const (
	// queued is the number of entries that may wait for the file.
	queued = 8192
	// longestKey is how much of a key is logged.
	longestKey = 4 << 10
)

// Errors of [Log.Err].
var (
	ErrWrite = errors.New("the audit log cannot be written")
	ErrLost  = errors.New("entries of the audit log were lost, because its file is too slow")
)

// lostMemory is how long lost entries count as a failure.
const lostMemory = time.Minute

// Log is an open audit log.
type Log struct {
	path    string
	level   Level
	queue   chan *Entry
	reopens chan chan error
	done    chan struct{} // closed when everything is written

	// Of the goroutine that writes.
	file    io.WriteCloser
	handler slog.Handler
	failed  error // why the last write failed

	mu       sync.Mutex
	err      error // what the last write or Reopen returned
	lastLost time.Time
	lost     atomic.Uint64
	closed   bool
}

// Open opens the log for appending; the path "-" is standard output.
func Open(path string, level Level) (*Log, error) {
	file, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	l := &Log{
		path: path, level: level, queue: make(chan *Entry, queued), reopens: make(chan chan error),
		done: make(chan struct{}),
	}
	l.use(file)
	go l.run()
	return l, nil
}

func open(path string) (io.WriteCloser, error) {
	if path == Stdout {
		return standardOutput()
	}
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// use makes the writer write to a file.
func (l *Log) use(file io.WriteCloser) {
	l.file = file
	l.handler = slog.NewJSONHandler(noting{l}, nil)
}

// noting writes to the file and remembers whether that failed, which slog does not tell.
type noting struct{ *Log }

func (n noting) Write(p []byte) (int, error) {
	count, err := n.file.Write(p)
	n.failed = err
	return count, err
}

// Wants reports whether calls of a kind are logged: those that write, or others.
func (l *Log) Wants(writes bool) bool { return l != nil && (writes || l.level == All) }

// Add logs an entry, which the caller no longer changes.
func (l *Log) Add(e *Entry) {
	e.at = time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	select {
	case l.queue <- e:
	default:
		l.lost.Add(1)
		l.lastLost = e.at
	}
}

// Reopen continues in a file newly opened under the same path, after a tool has renamed the old one. If that fails, the
// log stays in the old file.
func (l *Log) Reopen() error {
	if l.path == Stdout {
		return nil
	}
	result := make(chan error, 1)
	select {
	case l.reopens <- result:
		return <-result
	case <-l.done:
		return nil
	}
}

// Err returns why the log does not have everything that it should have, or nil. Errors: [ErrWrite], [ErrLost].
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.err != nil:
		return fmt.Errorf("%w: %w", ErrWrite, l.err)
	case !l.lastLost.IsZero() && time.Since(l.lastLost) < lostMemory:
		return fmt.Errorf("%w: %d so far", ErrLost, l.lost.Load())
	}
	return nil
}

// Lost returns the number of entries that were not written.
func (l *Log) Lost() uint64 { return l.lost.Load() }

// Close writes what is queued and closes the file.
func (l *Log) Close() error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.queue)
	}
	l.mu.Unlock()
	<-l.done
	return l.file.Close()
}

// run writes what is queued, until Close.
func (l *Log) run() {
	defer close(l.done)
	for {
		select {
		case e, ok := <-l.queue:
			if !ok {
				return
			}
			l.write(e)
		case result := <-l.reopens:
			result <- l.reopen()
		}
	}
}

func (l *Log) write(e *Entry) {
	l.failed = nil
	_ = l.handler.Handle(context.Background(), e.record()) // noting knows the error
	l.note(l.failed)
	if l.failed != nil {
		l.lost.Add(1)
	}
}

func (l *Log) reopen() error {
	file, err := open(l.path)
	l.note(err)
	if err != nil {
		return fmt.Errorf("reopen the audit log: %w", err)
	}
	_ = l.file.Close() // everything is written
	l.use(file)
	return nil
}

func (l *Log) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

// text returns an attribute with bytes, as a string or, if they are not UTF-8, in base64 under name_base64.
func text(name string, b []byte) slog.Attr {
	if len(b) > longestKey {
		b = b[:longestKey]
	}
	if utf8.Valid(b) {
		return slog.String(name, string(b))
	}
	return slog.Any(name+"_base64", b)
}
