package store

import (
	"context"

	"github.com/sqlstore/sqlstore/internal/tracing"
)

// batchWait is a recorded request that waits for its batch. A nil batchWait does nothing.
type batchWait struct{ request, queue tracing.Span }

// awaitBatch begins the wait, in the span of ctx.
func awaitBatch(ctx context.Context, tracer *tracing.Tracer) *batchWait {
	request := tracer.Of(ctx)
	if !request.On() {
		return nil
	}
	return &batchWait{request, request.Child("wait for a batch")}
}

// end ends the wait, unless it has ended already.
func (w *batchWait) end(err error) {
	if w != nil {
		w.queue.Fail(err)
		w.queue.End()
	}
}

// tracedBatch has a span for each recorded request of a batch, in that request's trace. The first one also has the
// spans of what the batch waits for, which happens once for all of them; the others have a link to it. A nil
// tracedBatch has no spans.
type tracedBatch struct {
	spans []tracing.Span
	of    []int // indexes of their calls
	first tracing.Span
}

// trace ends the waits of a batch's calls, and returns the batch's spans, nil if no request is recorded.
func (q *sequencer) trace(batch []*call) *tracedBatch {
	if q.s.cfg.Tracer == nil {
		return nil
	}
	return (*tracedBatch)(nil).join(batch, 0)
}

// join adds the calls from an index on to the batch.
func (t *tracedBatch) join(batch []*call, from int) *tracedBatch {
	for i := from; i < len(batch); i++ {
		w := batch[i].waits
		if w == nil {
			continue
		}
		w.end(nil)
		if t == nil {
			t = &tracedBatch{}
		}
		span := w.request.Child("batch")
		if len(t.spans) == 0 {
			t.first = span
		} else {
			span.Link(t.first)
		}
		t.spans, t.of = append(t.spans, span), append(t.of, i)
	}
	return t
}

// within returns ctx with the first span of the batch.
func (t *tracedBatch) within(ctx context.Context) context.Context {
	if t == nil {
		return ctx
	}
	return t.first.In(ctx)
}

// end ends the spans. err is the outcome of the first n calls; the rest are for the next batch.
func (t *tracedBatch) end(e *evaluator, batch []*call, n int, err error) {
	if t == nil {
		return
	}
	for i, span := range t.spans {
		at := t.of[i]
		switch {
		case at >= n:
			span.Text("sqlstore.outcome", "left for the next batch")
		case err != nil:
			span.Fail(err)
		default:
			span.Number(tracing.Revision, batch[at].rev)
			span.Number(tracing.BatchSize, int64(n))
			span.Number(tracing.Rows, int64(len(e.rows)))
			span.Fail(batch[at].err)
		}
		span.End()
	}
}
