package pgserver

import (
	"context"
	"errors"
)

func newContainer(ctx context.Context, o Options) (node, error) {
	return nil, errors.New("not yet")
}
