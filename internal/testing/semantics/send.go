package semantics

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Send sends a request with a JSON body; "" is none. The error is a [*Failure] if the server refuses it.
func Send(ctx context.Context, client *http.Client, method, url, body string) error {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode < http.StatusBadRequest {
		return err
	}
	f := &Failure{Code: res.StatusCode, RetryAfter: res.Header.Get("Retry-After")}
	if err := json.Unmarshal(answer, &f.Status); err != nil {
		return fmt.Errorf("%s %s: code %d without a Status: %w", method, url, res.StatusCode, err)
	}
	return f
}
