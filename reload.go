package sqlstore

import (
	"context"
	"fmt"
	"sync"

	"github.com/sqlstore/sqlstore/compactor"
	"github.com/sqlstore/sqlstore/internal/listen"
)

// Reload holds the settings that may change while a server runs.
type Reload struct {
	QuotaBytes int64
	TLS        TLSFiles
	Compaction compactor.Config
}

// Reload applies new settings, all or none. Either way it raises the generation in the conditions. Errors: [ErrConfig],
// [compactor.ErrConfig], those of reading TLS files.
func (s *Server) Reload(r Reload) error {
	err := s.reload(r)
	s.reloaded(err)
	return err
}

func (s *Server) reload(r Reload) error {
	if err := r.Compaction.Check(); err != nil {
		return err
	}
	if s.certs != nil {
		if err := s.certs.SetFiles(listen.Files(r.TLS)); err != nil {
			return err
		}
	} else if r.TLS.wanted() {
		return fmt.Errorf("%w: TLS cannot be switched on while the server runs", ErrConfig)
	}
	// Everything that can fail is done: the compactor accepts whatever Check has passed.
	s.store.SetQuota(s.quota(r.QuotaBytes))
	return s.compact(r.Compaction)
}

// compacting holds the background compactor. All settings share one, because it knows past revisions, which a new one
// would take a whole retention to learn.
type compacting struct {
	sync.Mutex
	compactor *compactor.Compactor // nil until the first use
	stop      context.CancelFunc
	closed    bool
}

// compact applies cfg, and starts a background compactor if there is none yet.
func (s *Server) compact(cfg compactor.Config) error {
	r := &s.compacting
	r.Lock()
	defer r.Unlock()
	switch {
	case r.closed:
		return nil
	case r.compactor != nil:
		return r.compactor.Set(cfg)
	}
	cfg.Logger = s.log
	c, err := compactor.New(s.store, cfg)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	r.compactor, r.stop = c, stop
	s.metrics.WatchCompaction(c.State)
	s.wg.Go(func() { c.Run(ctx) })
	return nil
}

func (s *Server) stopCompacting() {
	r := &s.compacting
	r.Lock()
	defer r.Unlock()
	r.closed = true
	if r.stop != nil {
		r.stop()
	}
}
