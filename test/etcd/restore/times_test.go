package restore

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// committedAt returns when a revision was committed, by a server of sqlstore.
func committedAt(t *testing.T, s *target, revision int64) time.Time {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		fmt.Sprintf("%s/revision?of=%d", s.ClientURL(), revision), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct{ CommittedAt time.Time }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	return answer.CommittedAt
}
