package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
)

// metrics asks for metrics within the process.
func (x api) metrics(ctx context.Context, query url.Values) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/metrics?"+query.Encode(), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask for metrics: %w", err)
	}
	a := &answer{header: http.Header{}}
	if err := x.serve(a, r); err != nil {
		return nil, err
	}
	if a.code != http.StatusOK {
		return nil, fmt.Errorf("ask for metrics: %d: %.200s", a.code, a.body.Bytes())
	}
	return a.body.Bytes(), nil
}

// lastHour answers with the samples of the last hour.
func (c *Console) lastHour(w http.ResponseWriter, _ *http.Request) {
	body, err := json.Marshal(c.recent.Hour())
	if err != nil {
		c.log.Error("console: the samples cannot be sent", "error", err)
		http.Error(w, "the samples cannot be sent: see the server's log", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // an error means that the browser has disconnected
}

// live sends each new sample as the event "sample".
func (c *Console) live(r *http.Request, s *eventStream) error {
	next := c.recent.Count()
	if err := s.flush(); err != nil { // so that the browser knows that it is connected
		return err
	}
	for {
		samples, n, more := c.recent.Since(next)
		for i := range samples {
			if err := s.add(event{name: "sample", data: &samples[i]}); err != nil {
				return err
			}
		}
		if next = n; len(samples) > 0 {
			if err := s.flush(); err != nil {
				return err
			}
		}
		select {
		case <-more:
		case <-r.Context().Done():
			return nil
		}
	}
}
