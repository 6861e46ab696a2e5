package main

import (
	"errors"
	"slices"
	"syscall"
	"time"
)

// What a target does with all its processes: its replicas and its Postgres server.

// usage is CPU time.
type usage struct {
	server   time.Duration // of all replicas
	database time.Duration // of the Postgres server, with all its processes
}

func (u usage) since(before usage) usage {
	return usage{u.server - before.server, u.database - before.database}
}

func (u usage) plus(o usage) usage { return usage{u.server + o.server, u.database + o.database} }

// scaled is the share of one or more operations.
func (u usage) scaled(by float64) usage {
	return usage{time.Duration(float64(u.server) * by), time.Duration(float64(u.database) * by)}
}

// used is the CPU time so far.
func (t *target) used() (u usage, err error) {
	for _, p := range t.replicas {
		cpu, err := p.cpu()
		if err != nil {
			return u, err
		}
		u.server += cpu
	}
	if t.postgres != nil {
		u.database, err = t.postgres.cpu()
	}
	return u, err
}

// dead returns an error with the end of its log if a replica has exited.
func (t *target) dead() error {
	for _, p := range t.replicas {
		if err := p.dead(); err != nil {
			return err
		}
	}
	return nil
}

// pause stops all until resume: those that use the database before it.
func (t *target) pause() error {
	for _, p := range t.replicas {
		if err := p.pause(); err != nil {
			return err
		}
	}
	if t.postgres != nil {
		return t.postgres.pause()
	}
	return nil
}

func (t *target) resume() error {
	if t.postgres != nil {
		if err := t.postgres.resume(); err != nil {
			return err
		}
	}
	for _, p := range t.replicas {
		if err := p.resume(); err != nil {
			return err
		}
	}
	return nil
}

// memory is that of all replicas.
func (t *target) memory() (sum memory, err error) {
	for _, p := range t.replicas {
		m, err := p.memory()
		if err != nil {
			return sum, err
		}
		sum.Peak, sum.Anon, sum.File = sum.Peak+m.Peak, sum.Anon+m.Anon, sum.File+m.File
	}
	return sum, nil
}

func (t *target) forgetPeak() error {
	for _, p := range t.replicas {
		if err := p.forgetPeak(); err != nil {
			return err
		}
	}
	return nil
}

// syncing are the processes that make writes durable.
func (t *target) syncing() ([]int, error) {
	if t.postgres != nil {
		return t.postgres.pids()
	}
	return []int{t.replicas[0].pid()}, nil
}

// end closes the connections and stops the replicas, not the database.
func (t *target) end(sig syscall.Signal) (err error) {
	for _, conn := range t.conns {
		conn.Close()
	}
	if t.http != nil {
		t.http.CloseIdleConnections()
	}
	for _, p := range slices.Backward(t.replicas) {
		err = errors.Join(err, p.stop(sig))
	}
	t.replicas = nil
	return err
}
