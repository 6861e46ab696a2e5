package postgres

import "github.com/sqlstore/sqlstore/backend"

// Connections implements [backend.Pooled]. It adds up the connections and limits of both pools; the listener's
// connection does not count.
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
