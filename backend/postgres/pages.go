package postgres

// unprotectedPages is a column that is true if the server keeps no checksums of its pages, and NULL for an engine
// without that setting. It cannot change while a server runs, so each new connection reads it once.
const unprotectedPages = "current_setting('data_checksums', true) = 'off'"

// NoPageChecksums implements [backend.PageChecksums].
func (b *Backend) NoPageChecksums() bool { return b.unprotected.Load() }

// notePages records a server's answer to unprotectedPages.
func (b *Backend) notePages(unprotected bool) { b.unprotected.Store(unprotected) }
