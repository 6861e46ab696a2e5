package console

import "context"

// For tests.
var (
	Runbook     = runbook
	StaticPaths = staticPaths
)

// Sample records a sample of the metrics.
func (c *Console) Sample(ctx context.Context) { c.recent.Sample(ctx) }
