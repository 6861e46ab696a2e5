package sqlite

import (
	"fmt"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// placePeriod is how often a backend checks that its file is still at its path.
const placePeriod = time.Second

// errReplaced is the reason why a backend whose file is no longer at its path refuses writes.
var errReplaced = fmt.Errorf("%w: the database file that this server has open was replaced or removed, so further "+
	"writes are refused: save what the server holds with 'etcdctl snapshot save' if it is needed, then restart to use "+
	"what is at the path", backend.ErrUnavailable)

// watchPlace checks until the backend closes that its file is still at its path, with its content. A file that is not
// cannot be opened again, and commits to it would be lost with the process.
func (b *Backend) watchPlace() {
	ticker := time.NewTicker(placePeriod)
	defer ticker.Stop()
	for {
		select {
		case <-b.closing:
			return
		case <-ticker.C:
			if b.checkPlace() != nil || b.watchContent() != nil {
				return
			}
		}
	}
}

// checkPlace refuses all further writes if the file is not at its path.
func (b *Backend) checkPlace() error {
	if at, err := b.file.At(b.path); at || err != nil {
		return nil //nolint:nilerr // the path cannot be looked at now, which does not say that the file is gone
	}
	err := fmt.Errorf("%w: %s", errReplaced, b.path)
	if b.broken.CompareAndSwap(nil, &err) {
		b.log.Error("database refuses all further writes", "path", b.path, "error", err)
	}
	return err
}
