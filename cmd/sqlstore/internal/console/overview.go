package console

import (
	"net/http"

	"github.com/sqlstore/sqlstore/internal/conditions"
)

// overview shows how the server is.
func (c *Console) overview(r *http.Request) (view, error) {
	var report conditions.Report
	if err := c.api.get(r, "/status", nil, &report); err != nil {
		return view{}, err
	}
	return view{page: "overview", title: "Overview", data: &report}, nil
}
