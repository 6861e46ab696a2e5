package sqlstore

import "github.com/sqlstore/sqlstore/internal/store"

// Store returns the server's engine.
func (s *Server) Store() *store.Store { return s.store }

// CutOff is what a stop logs if requests in flight did not finish in time.
const CutOff = cutOff
