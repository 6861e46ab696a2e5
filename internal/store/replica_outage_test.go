package store

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/testing/simdb"
)

// outOfReach fails one heartbeat once it is cut off, and does not answer the next ones.
type outOfReach struct {
	backend.Shared
	cut, failed, blocked atomic.Bool
}

func (b *outOfReach) Heartbeat(
	ctx context.Context, m backend.Member, timeout, silence time.Duration,
) (backend.Membership, error) {
	switch {
	case !b.cut.Load():
		return b.Shared.Heartbeat(ctx, m, timeout, silence)
	case b.failed.CompareAndSwap(false, true):
		return backend.Membership{}, backend.ErrUnavailable
	}
	b.blocked.Store(true)
	<-ctx.Done()
	return backend.Membership{}, ctx.Err()
}

// A store that closes while its database is away does not log that the database answers again.
func TestCloseDuringAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &outOfReach{Shared: simdb.New(1, nil).Open()}
		var out bytes.Buffer
		s := openStore(t, b, Config{Logger: slog.New(slog.NewTextHandler(&out, nil))})
		b.cut.Store(true)
		for !b.blocked.Load() {
			time.Sleep(beatOther)
			synctest.Wait()
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if text := out.String(); !strings.Contains(text, "does not answer") || strings.Contains(text, "answers again") {
			t.Errorf("logged:\n%s", text)
		}
	})
}
