package sqlstore

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/backend/postgres"
	"github.com/sqlstore/sqlstore/schema"
)

// A start that waits for its database tries every second, but logs only as often as a person wants to read it.
func TestWaitIsLoggedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		began := time.Now()
		c := &Config{
			Datastore: "postgres://u@h/d", DatastoreWait: time.Minute,
			Logger: slog.New(slog.NewTextHandler(&out, nil)),
		}
		tries := 0
		err := c.await(t.Context(), func(error) {}, func() error {
			if tries++; time.Since(began) >= 50*time.Second {
				return nil
			}
			return backend.ErrUnavailable
		})
		if err != nil || tries != 51 {
			t.Errorf("%d tries, %v", tries, err)
		}
		text := out.String()
		if n := strings.Count(text, "not available yet"); n != 4 { // after 0, 5, 15 and 35 seconds
			t.Errorf("%d warnings:\n%s", n, text)
		}
		if n := strings.Count(text, "database is available"); n != 1 {
			t.Errorf("%d lines of its end:\n%s", n, text)
		}
		out.Reset()
		if err := c.await(t.Context(), func(error) {}, func() error { return nil }); err != nil || out.Len() > 0 {
			t.Errorf("a database that is there: %v, %s", err, &out)
		}
		for _, final := range []error{
			schema.ErrNewer, postgres.ErrIncomplete, fmt.Errorf("open: %w", postgres.ErrRefused),
		} {
			if err := c.await(t.Context(), func(error) {}, func() error { return final }); !errors.Is(err, final) ||
				out.Len() > 0 {
				t.Errorf("a wait that cannot help: %v, %s", err, &out)
			}
		}
	})
}
