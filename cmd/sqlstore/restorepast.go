package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/putback"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/source"
)

// past is the point to which keys are put back.
type past struct {
	putback.Past

	revision int64
	time     *time.Time // nil if it is not known
	chain    string     // of the backup, "" for the server's own history
	close    func() error
}

// past finds the point that the flags name.
func (k *keyRestorer) past(
	ctx context.Context, s *source.Server, spans []backend.Span, errOut io.Writer,
) (*past, error) {
	if k.saved != nil {
		return k.savedPast(ctx, spans, errOut)
	}
	revision, err := k.point(ctx, s)
	if err != nil {
		return nil, k.advise(err)
	}
	p := &past{
		Past: &putback.History{Server: s, Revision: revision}, revision: revision, close: func() error { return nil },
	}
	p.time, err = (&clock{store: s}).when(ctx, revision)
	return p, err
}

// savedPast reads the keys of spans from the backup.
func (k *keyRestorer) savedPast(ctx context.Context, spans []backend.Span, errOut io.Writer) (*past, error) {
	k.saved.point.Spans, k.saved.point.Keep = spans, false
	src, err := k.saved.open(ctx, k.toRevision, k.toTime, errOut)
	if err != nil {
		return nil, err
	}
	revision, written := src.At()
	saved, err := putback.Save(ctx, src)
	if err := errors.Join(err, src.Close()); err != nil {
		return nil, err
	}
	p := &past{Past: saved, revision: revision, chain: src.Chain(), close: saved.Close}
	if !written.IsZero() {
		p.time = &written
	}
	return p, nil
}

// String names the point in a sentence.
func (p *past) String() string {
	text := fmt.Sprintf("revision %d", p.revision)
	if p.chain != "" {
		text += " of the backup"
	}
	return text
}

// flags name the point for another run of the command.
func (p *past) flags() string {
	text := fmt.Sprintf("--to-revision %d", p.revision)
	if p.chain != "" {
		text += " --chain " + p.chain
	}
	return text
}
