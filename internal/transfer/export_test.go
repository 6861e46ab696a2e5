package transfer

// Batches sets how many rows one transaction writes.
func (o Options) Batches(rows int) Options {
	o.batchRows = rows
	return o
}
