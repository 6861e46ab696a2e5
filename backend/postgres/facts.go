package postgres

import "github.com/sqlstore/sqlstore/backend"

// MaxKeyBytes is the size of the largest key that can be written: an index entry must fit a third of a page.
func (b *Backend) MaxKeyBytes() int { return maxKey }

// Connections counts those of the pool and the bound on them; the listener's is not among them.
func (b *Backend) Connections() backend.Connections {
	st := b.pool.Stat()
	return backend.Connections{
		InUse: int(st.AcquiredConns()), Idle: int(st.IdleConns()), Max: int(st.MaxConns()),
		Waits: st.EmptyAcquireCount(), Opened: st.NewConnsCount(),
	}
}
