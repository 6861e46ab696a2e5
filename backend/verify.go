package backend

import "context"

// Verifying is a [Backend] that can compare its rows with its indexes, for a server that does not notice damage to its
// files by itself.
type Verifying interface {
	PageChecksums
	// Server returns the server to which the newest connection leads, or behind a pooler the one that last answered:
	// what was verified on another one says nothing about its files.
	Server() Server
	// Verify reads all rows of one snapshot from the table, without an index, verifies them against their checksums,
	// except for their values, and passes them to v. Then it verifies that the indexes contain exactly these rows, and
	// that a search in them finds each. Error: [ErrCorrupt].
	Verify(ctx context.Context, v Verifier) error
}

// Verifier receives the rows of [Verifying.Verify]. An error of its methods ends the verification, which returns it.
type Verifier interface {
	// Begin is called first, with the clock of the snapshot.
	Begin(c Clock) error
	// Row is called for each row, tombstones included, without its value and in no order.
	Row(r *Row) error
	// Rows is called once all rows were passed, if the indexes contain exactly these.
	Rows() error
}
