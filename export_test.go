package sqlstore

import "github.com/sqlstore/sqlstore/internal/store"

// Store returns the server's engine.
func (s *Server) Store() *store.Store { return s.store }
