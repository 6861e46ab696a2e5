package backend

import "context"

// Verifying is a [Backend] that can compare its rows with its indexes, for a server that does not notice damage to its
// files by itself.
type Verifying interface {
	PageChecksums
	// Server returns the server of the newest connection or, behind a pooler, the one that last answered. A
	// verification of another server says nothing about the files of this one.
	Server() Server
	// Verify reads all rows of one snapshot from the table, without an index, verifies all of them but their values
	// against their checksums, and passes them to v. Then it verifies that the indexes contain exactly these rows, and
	// that a search in them finds each. Error: [ErrCorrupt].
	Verify(ctx context.Context, v Verifier) error
}

// Verifier receives the rows of [Verifying.Verify]. If a method returns an error, the verification ends and returns it.
type Verifier interface {
	// Begin is called first, with the clock of the snapshot.
	Begin(c Clock) error
	// Row is called for each row, tombstones included, without its value and in no order.
	Row(r *Row) error
	// Rows is called after the last row, if the indexes contain exactly the rows that were passed.
	Rows() error
}
