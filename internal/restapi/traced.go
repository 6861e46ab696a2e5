package restapi

import (
	"context"
	"net/http"

	"github.com/sqlstore/sqlstore/internal/tracing"
)

// trace begins the request's span, which continues the trace that its headers name.
func (c *call) trace(tracer *tracing.Tracer) {
	if tracer == nil {
		return
	}
	ctx, span := tracer.Serve(c.r.Context(), c.r.Method+" "+c.verb, func(_ context.Context, name string) string {
		return c.r.Header.Get(name)
	})
	if span.On() {
		c.span, c.r = span, c.r.WithContext(ctx)
	}
}

// traced ends the request's span.
func (c *call) traced() {
	if !c.span.On() {
		return
	}
	c.span.Text("http.request.method", c.r.Method)
	c.span.Number("http.response.status_code", int64(c.code))
	if c.problem != nil && c.code >= http.StatusInternalServerError {
		c.span.Fail(c.problem)
	}
	c.span.End()
}
