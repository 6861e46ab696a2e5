package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sqlstore/sqlstore/backend"
)

// acquireWriter waits for the writing connection. After it succeeds, the caller must call releaseWriter.
func (b *Backend) acquireWriter(ctx context.Context) error {
	if err := b.usable(ctx); err != nil {
		return err
	}
	select {
	case b.writerLock <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-b.closing:
		return backend.ErrClosed
	}
	if err := b.usable(ctx); err != nil {
		b.releaseWriter()
		return err
	}
	return nil
}

func (b *Backend) releaseWriter() { <-b.writerLock }

// writerConn returns the writing connection, and makes a new one if necessary. The caller must hold writerLock.
func (b *Backend) writerConn(ctx context.Context) (*pgxpool.Conn, error) {
	if b.writer != nil && !b.writer.Conn().IsClosed() && b.servers.current(linkOf(b.writer.Conn()).place) {
		return b.writer, nil
	}
	b.dropWriter(false)
	c, err := b.control.acquire(ctx)
	if err != nil {
		return nil, err
	}
	b.writer = c
	return c, nil
}

// dropWriter gives up the writing connection. If it failed, all other connections are closed with it: if one broke,
// others probably did, or lead to a different server than a new one would.
func (b *Backend) dropWriter(failed bool) {
	if b.writer != nil {
		if failed {
			ctx, cancel := context.WithTimeout(context.Background(), grace)
			_ = b.writer.Conn().Close(ctx)
			cancel()
		}
		b.writer.Release()
		b.writer = nil
	}
	if failed {
		b.resetPools()
	}
}

// abandon ends a transaction that has failed or is no longer wanted, without releasing the writing connection.
func (b *Backend) abandon(cause error) {
	c := b.writer.Conn()
	e := pgError(cause)
	switch {
	case c.IsClosed(), e != nil && (!refused(cause) || e.Code == codeReadOnly):
		b.dropWriter(true)
	case c.PgConn().TxStatus() == 'I':
	default:
		ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
		defer cancel()
		if _, err := c.Exec(ctx, "ROLLBACK"); err != nil || !settle(b.writer, err) {
			b.dropWriter(true)
		}
	}
}
