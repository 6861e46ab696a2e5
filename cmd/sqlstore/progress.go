package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

const (
	barWidth  = 30
	barEvery  = 100 * time.Millisecond
	lineEvery = 5 * time.Second
)

const bar = "=============================="

// progress shows how far a long operation is: as a bar on a terminal, otherwise as a line every few seconds.
type progress struct {
	out      io.Writer
	terminal bool
	shown    time.Time
	width    int // of what the terminal shows now
}

func newProgress(out io.Writer) *progress {
	f, ok := out.(*os.File)
	return &progress{out: out, terminal: ok && term.IsTerminal(int(f.Fd())), shown: time.Now()}
}

// at shows that a part is done, from 0 to 1, unless something was shown a moment ago. text says what, in words.
func (p *progress) at(done float64, text func() string) {
	every := lineEvery
	if p.terminal {
		every = barEvery
	}
	if time.Since(p.shown) < every {
		return
	}
	p.shown = time.Now()
	if !p.terminal {
		_, _ = fmt.Fprintln(p.out, text())
		return
	}
	full := int(barWidth * min(max(done, 0), 1))
	line := fmt.Sprintf("[%-*s] %s", barWidth, bar[:full], text())
	_, _ = fmt.Fprintf(p.out, "\r%-*s", p.width, line)
	p.width = len(line)
}

// now makes the next call of at show something.
func (p *progress) now() { p.shown = time.Time{} }

// end removes the bar.
func (p *progress) end() {
	if p.width > 0 {
		_, _ = fmt.Fprintf(p.out, "\r%s\r", strings.Repeat(" ", p.width))
	}
}
