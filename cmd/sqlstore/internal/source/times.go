package source

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// answerMax is larger than any answer about a revision.
const answerMax = 1 << 16

// Times asks a sqlstore server when revisions were committed. Other servers of etcd's API cannot tell.
type Times struct {
	// URL is that of the server, and Client calls it.
	URL    string
	Client *http.Client

	silent bool // the server cannot tell
}

type commit struct {
	Revision    int64     `json:"revision"`
	CommittedAt time.Time `json:"committedAt"`
}

func (x *Times) when(ctx context.Context, revision int64) (time.Time, error) {
	c, err := x.ask(ctx, url.Values{"of": {strconv.FormatInt(revision, 10)}})
	return c.CommittedAt, err
}

func (x *Times) at(ctx context.Context, t time.Time) (int64, error) {
	c, err := x.ask(ctx, url.Values{"at": {t.Format(time.RFC3339Nano)}})
	return c.Revision, err
}

func (x *Times) ask(ctx context.Context, what url.Values) (c commit, err error) {
	if x == nil || x.silent {
		return c, ErrNoTimes
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, x.URL+"/revision?"+what.Encode(), http.NoBody)
	if err != nil {
		return c, err
	}
	resp, err := x.Client.Do(req)
	if err != nil {
		x.silent = ctx.Err() == nil // it serves gRPC alone
		return c, fmt.Errorf("%w (%w)", ErrNoTimes, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerMax))
	switch {
	case err != nil:
		return c, err
	case resp.StatusCode == http.StatusGone:
		return c, backend.ErrUnknownTime
	case resp.StatusCode == http.StatusServiceUnavailable:
		return c, fmt.Errorf("ask when a revision was committed: %s", strings.TrimSpace(string(body)))
	case resp.StatusCode != http.StatusOK || json.Unmarshal(body, &c) != nil:
		x.silent = true
		return c, ErrNoTimes
	}
	return c, nil
}
