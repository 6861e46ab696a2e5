package postgres

// unprotectedPages is a column that is true if the server keeps no checksums of its pages, and NULL for an engine that
// does not say. A server cannot change it while it runs, so it is read on each new connection.
const unprotectedPages = "current_setting('data_checksums', true) = 'off'"

// NoPageChecksums implements [backend.PageChecksums].
func (b *Backend) NoPageChecksums() bool { return b.unprotected.Load() }

// notePages records a server's answer to unprotectedPages.
func (b *Backend) notePages(unprotected bool) { b.unprotected.Store(unprotected) }
