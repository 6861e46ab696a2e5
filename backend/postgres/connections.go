package postgres

import "github.com/sqlstore/sqlstore/backend"

// Connections counts those of both pools and the bound on them; the listener's is not among them.
func (b *Backend) Connections() (sum backend.Connections) {
	for _, l := range []lane{b.control, b.reads} {
		st := l.pool.Stat()
		sum.InUse += int(st.AcquiredConns())
		sum.Idle += int(st.IdleConns())
		sum.Max += int(st.MaxConns())
		sum.Waits += st.EmptyAcquireCount()
		sum.Opened += st.NewConnsCount()
	}
	return sum
}
