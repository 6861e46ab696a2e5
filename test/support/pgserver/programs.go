package pgserver

import "os"

// Programs returns the directory of the machine's Postgres programs, of SQLSTORE_TEST_POSTGRES_VERSION if set, for
// tests that run them in a way of their own.
func Programs() (dir string, err error) {
	b, err := findBinaries(os.Getenv("SQLSTORE_TEST_POSTGRES_VERSION"))
	return b.bin, err
}
