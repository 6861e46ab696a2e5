package pgserver

import (
	"context"
	"errors"
	"fmt"
)

// defaultVersion is that of containers, and preferred among the machine's binaries.
const defaultVersion = "15"

// newNode makes a container, or processes of this machine if no containers are available.
func newNode(ctx context.Context, o Options) (node, error) {
	c, errContainer := newContainer(ctx, o)
	if errContainer == nil {
		return c, nil
	}
	l, errLocal := newLocal(o)
	if errLocal == nil {
		l.why = errContainer
		return l, nil
	}
	return nil, fmt.Errorf("no Postgres to test with: start Docker, or install Postgres's binaries (Debian: "+
		"'apt-get install postgresql'), or set SQLSTORE_TEST_POSTGRES to the DSN of a server:\n%w",
		errors.Join(errContainer, errLocal))
}
