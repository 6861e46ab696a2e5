package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"golang.org/x/sys/unix"

	"github.com/sqlstore/sqlstore/backend"
)

// cut drops all incoming packets of a connection before the kernel processes them, so that nothing is acknowledged. It
// needs no privilege. It does not drop outgoing packets, so nothing may be left to retransmit.
func cut(t *testing.T, c net.Conn) {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server has received everything", func() bool {
		unacknowledged := -1
		err := raw.Control(func(fd uintptr) { unacknowledged, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
		if err != nil {
			t.Fatal(err)
		}
		return unacknowledged == 0
	})
	drop := syscall.SockFilter{Code: syscall.BPF_RET} // accept 0 bytes
	prog := syscall.SockFprog{Len: 1, Filter: &drop}
	var errno syscall.Errno
	err = raw.Control(func(fd uintptr) {
		_, _, errno = syscall.Syscall6(syscall.SYS_SETSOCKOPT, fd, syscall.SOL_SOCKET, syscall.SO_ATTACH_FILTER,
			uintptr(unsafe.Pointer(&prog)), unsafe.Sizeof(prog), 0) //nolint:gosec // a filter is a pointer
	})
	if err != nil || errno != 0 {
		t.Fatal(err, errno)
	}
}

// withoutProxy returns a DSN that bypasses the proxy of a published port, which would acknowledge packets in the
// server's place.
func withoutProxy(t *testing.T, dsn string) string {
	t.Helper()
	var host, port string
	admin(t, dsn, "SELECT host(inet_server_addr()) || ' ' || inet_server_port()", &host)
	host, port, _ = strings.Cut(host, " ")
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = net.JoinHostPort(host, port)
	return u.String()
}

// TestHolderVanishes cuts off a process that holds the clock while the server waits for it within a round trip: for the
// rest of a message, or for it to read the answer. For idle transactions see TestHolderStandsStill.
func TestHolderVanishes(t *testing.T) {
	t.Parallel() // it waits most of its time
	dsn := withoutProxy(t, database(t))
	b := openTest(t, Config{DSN: dsn})
	// A statement, after which the server is no longer idle, and the beginning of the next.
	var half, large []byte
	for _, m := range []pgproto3.FrontendMessage{
		&pgproto3.Parse{Query: "SELECT 1"}, &pgproto3.Bind{},
		&pgproto3.Execute{}, &pgproto3.Parse{Query: "SELECT 2"},
	} {
		var err error
		if half, err = m.Encode(half); err != nil {
			t.Fatal(err)
		}
	}
	half = half[:len(half)-4]
	large, err := (&pgproto3.Query{String: "SELECT repeat('x', 1000) FROM generate_series(1, 100000)"}).Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	type trial struct {
		name  string
		waits string // what the server waits for
		cut   bool
		send  []byte
	}
	trials := []trial{
		{"cut off while it sends", "ClientRead", true, half},
		{"cut off while it receives", "ClientWrite", true, large},
		{"frozen while it receives", "ClientWrite", false, large},
	}
	// nothing else limits this: an older server waits as long as the client's machine runs
	if strings.Contains(b.features.lock, transactionTimeout) {
		trials = append(trials, trial{"frozen while it sends", "ClientRead", false, half})
	}
	for _, c := range trials {
		t.Run(c.name, func(t *testing.T) {
			cc, err := pgx.ParseConfig(dsn)
			if err != nil {
				t.Fatal(err)
			}
			h, err := pgx.ConnectConfig(t.Context(), cc)
			if err != nil {
				t.Fatal(err)
			}
			nc := h.PgConn().Conn()
			defer func() { _ = nc.Close() }()
			for _, sql := range []string{beginSQL, b.features.bounds, b.features.lock} {
				if _, err := h.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			pid := h.PgConn().PID()
			if _, err := nc.Write(c.send); err != nil {
				t.Fatal(err)
			}
			if c.cut {
				cut(t, nc)
			}
			gone := time.Now()
			eventually(t, "the server waits for its client", func() bool {
				var state, event string
				admin(t, dsn, fmt.Sprintf("SELECT COALESCE(state, ''), COALESCE(wait_event, '') FROM "+
					"pg_stat_activity WHERE pid = %d", pid), &state, &event)
				return state == "active" && event == c.waits
			})
			var tx backend.Tx
			eventually(t, "another gets the clock", func() bool {
				var err error
				if tx, err = b.Begin(context.Background(), backend.Needs{}); err != nil &&
					!errors.Is(err, backend.ErrUnavailable) {
					t.Fatal(err)
				}
				return err == nil
			})
			t.Logf("the clock was free after %v", time.Since(gone))
			tx.Rollback()
		})
	}
}
