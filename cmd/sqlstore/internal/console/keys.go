package console

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/sqlstore/sqlstore/backend"
)

// keys passes a page of the keys with a prefix, at a revision, to add, and returns the token of the next page, "" if
// there is none. A token decides the revision. Errors: [*failure], that of add.
func (x api) keys(r *http.Request, prefix string, limit int, revision int64, token string,
	add func(*backend.Row) error,
) (next string, err error) {
	ask := url.Values{"limit": {strconv.Itoa(limit)}}
	if token != "" {
		ask.Set("continue", token)
	} else {
		ask.Set("resourceVersion", strconv.FormatInt(revision, 10))
		ask.Set("resourceVersionMatch", "Exact")
	}
	var end struct {
		Continue string `json:"continue"`
	}
	err = x.read(r, objectsPath+url.PathEscape(prefix), ask, func(in io.Reader) error {
		list := json.NewDecoder(in)
		if err := items(list, add); err != nil {
			return err
		}
		for range 2 { // the end of the items, and the name of the metadata
			if _, err := list.Token(); err != nil {
				return fmt.Errorf("count keys: %w", err)
			}
		}
		if err := list.Decode(&end); err != nil {
			return fmt.Errorf("count keys: %w", err)
		}
		_, err := io.Copy(io.Discard, in)
		return err
	})
	return end.Continue, err
}

// items passes the items of a list to add.
func items(list *json.Decoder, add func(*backend.Row) error) error {
	for {
		token, err := list.Token()
		if err != nil {
			return fmt.Errorf("count keys: %w", err)
		}
		if token == json.Delim('[') { // only items is a list
			break
		}
	}
	for list.More() {
		var o stored
		if err := list.Decode(&o); err != nil {
			return fmt.Errorf("count keys: %w", err)
		}
		if err := add(o.row()); err != nil {
			return err
		}
	}
	return nil
}
