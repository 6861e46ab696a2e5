package sqlstore

import (
	"context"
	"fmt"

	"github.com/sqlstore/sqlstore/compactor"
	"github.com/sqlstore/sqlstore/listen"
)

// Reload is what may change while a server runs.
type Reload struct {
	QuotaBytes int64
	TLS        listen.Files
	Compaction compactor.Config
}

// Reload puts new settings into force, all or none. Errors: [ErrConfig], [compactor.ErrConfig], those of reading TLS files.
func (s *Server) Reload(r Reload) error {
	r.Compaction.Logger = s.log
	compact, err := compactor.New(s.store, r.Compaction)
	if err != nil {
		return err
	}
	if s.certs != nil {
		if err := s.certs.SetFiles(r.TLS); err != nil {
			return err
		}
	} else if r.TLS.Cert != "" {
		return fmt.Errorf("%w: TLS cannot be switched on while the server runs", ErrConfig)
	}
	s.store.SetQuota(r.QuotaBytes)
	s.compact(compact)
	return nil
}

// compact runs c in the place of the compactor before.
func (s *Server) compact(c *compactor.Compactor) {
	s.compacting.Lock()
	defer s.compacting.Unlock()
	if s.cancel != nil {
		s.cancel()
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.wg.Go(func() { c.Run(ctx) })
}
