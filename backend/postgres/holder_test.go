//go:build unix

package postgres

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/env"
)

// role is that of a process that holds the clock of the database that it is given.
const role = "holder"

func TestMain(m *testing.M) {
	if dsn, ok := env.IsChild(role); ok {
		if err := holder(dsn); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// holder takes the clock, commits on command, and prints the outcome; then it writes once more.
func holder(dsn string) error {
	ctx := context.Background()
	b, err := Open(ctx, Config{DSN: dsn})
	if err != nil {
		return err
	}
	tx, err := b.Begin(ctx, backend.Needs{})
	if err != nil {
		return err
	}
	fmt.Println("held")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	err = tx.Commit(ctx, row("frozen", tx.Loaded().Clock.Revision+1))
	fmt.Printf("commit: conflict %t, unavailable %t, unknown %t: %q\n", errors.Is(err, backend.ErrConflict),
		errors.Is(err, backend.ErrUnavailable), errors.Is(err, backend.ErrUnknownOutcome), fmt.Sprint(err))
	if tx, err = b.Begin(ctx, backend.Needs{}); err != nil {
		return err
	}
	if err := tx.Commit(ctx, row("again", tx.Loaded().Clock.Revision+1)); err != nil {
		return err
	}
	fmt.Println("recovered")
	return b.Close()
}

// TestHolderStandsStill freezes a process between its two round trips. The server ends its transaction, so that others
// can write. When the process continues, its commit fails and changes nothing, and it can write again.
func TestHolderStandsStill(t *testing.T) {
	t.Parallel() // it waits most of its time
	dsn := database(t)
	b := openTest(t, Config{DSN: dsn})
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), env.AsChild(role, dsn))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	lines := bufio.NewReader(out)
	wantLine := func(prefix string) string {
		t.Helper()
		line, err := lines.ReadString('\n')
		if err != nil || !strings.HasPrefix(line, prefix) {
			t.Fatalf("the other process prints %q, %v; want %q", line, err, prefix)
		}
		return line
	}
	wantLine("held")
	frozen := time.Now()
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	tx, err := b.Begin(t.Context(), backend.Needs{})
	if err != nil {
		t.Fatalf("the clock of a frozen process: %v", err)
	}
	t.Logf("the clock was free after %v", time.Since(frozen))
	if err := tx.Commit(t.Context(), row("b", 2)); err != nil {
		t.Error(err)
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, "go on\n"); err != nil {
		t.Fatal(err)
	}
	// What the server said when it ended the transaction may be lost with the connection.
	line := wantLine("commit: ")
	if !strings.HasPrefix(line, "commit: conflict true, unavailable true, unknown false") &&
		!strings.HasPrefix(line, "commit: conflict false, unavailable false, unknown true") {
		t.Error(line)
	}
	wantLine("recovered")
	rows, clock, err := b.Range(t.Context(),
		backend.RangeQuery{Span: backend.Span{End: []byte{}}, Revision: 3, Limit: 10})
	if err != nil || clock.Revision != 3 || len(rows) != 2 || string(rows[0].Key) != "again" ||
		string(rows[1].Key) != "b" {
		t.Errorf("%+v, clock %+v, %v", rows, clock, err)
	}
}
