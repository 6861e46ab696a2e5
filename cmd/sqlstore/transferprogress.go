package main

import (
	"fmt"
	"io"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/show"
	"github.com/sqlstore/sqlstore/internal/transfer"
)

// transferProgress shows how far a copy is, at the start of each step and then as [progress] does.
type transferProgress struct {
	*progress

	contents *backend.Contents
	step     string
	began    time.Time
}

func newTransferProgress(out io.Writer, c *backend.Contents) *transferProgress {
	return &transferProgress{progress: newProgress(out), contents: c}
}

// at shows a progress.
func (p *transferProgress) at(now transfer.Progress) {
	if now.Step != p.step {
		p.step, p.began = now.Step, time.Now()
		p.now()
	}
	done := p.part(now)
	p.progress.at(done, func() string {
		return fmt.Sprintf("%s: %s, %.1f MB%s", now.Step, show.Number(now.Rows, "row"), float64(now.Bytes)/1e6,
			p.left(done))
	})
}

// part returns which part of a step is done, from 0 to 1.
func (p *transferProgress) part(now transfer.Progress) float64 {
	switch {
	case p.contents.Rows > 0:
		return min(float64(now.Rows)/float64(p.contents.Rows), 1)
	case p.contents.Bytes > 0:
		return min(float64(now.Bytes)/float64(p.contents.Bytes), 1)
	}
	return 0
}

// left says how long the rest will take, once that can be told.
func (p *transferProgress) left(done float64) string {
	if done < 0.01 {
		return ""
	}
	rest := time.Duration(float64(time.Since(p.began)) * (1 - done) / done)
	return fmt.Sprintf(", about %s left", rest.Round(time.Second))
}
