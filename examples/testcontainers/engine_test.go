package testcontainers_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/images"
)

// TestMain adapts testcontainers to the machines that test this repository. A copy of the example does not need it.
func TestMain(m *testing.M) {
	if _, err := images.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
