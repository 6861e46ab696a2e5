package restapi

import (
	"bytes"
	"net/http"
	"strconv"

	"github.com/sqlstore/sqlstore/internal/store"
)

const (
	// deleteBytes limits the body of a DELETE.
	deleteBytes = 64 << 10
	deleteForm  = `omit the body of a DELETE, or send {"preconditions":{"resourceVersion":"..."}}`
)

func (c *call) delete() error {
	only, err := c.readDelete()
	if err != nil {
		return err
	}
	ctx, cancel := c.bounded(c.r.Context())
	defer cancel()
	key := c.to.key
	t := &store.Txn{Success: []store.Op{{Delete: &store.DeleteRequest{Key: key}}}}
	if only.given {
		t.Compare = []store.Compare{only.compare(key)}
		t.Failure = []store.Op{{Range: &store.RangeRequest{Key: key, KeysOnly: true}}}
	}
	res, err := c.s.engine.Txn(ctx, t)
	if err != nil {
		return err
	}
	c.revision = res.Revision
	switch {
	case !res.Succeeded:
		if rows := res.Results[0].Range.Rows; len(rows) > 0 {
			return c.unmet(conflict(key, only.version, rows[0].ModRevision))
		}
		return c.unmet(notFound(key))
	case res.Results[0].Delete.Deleted == 0:
		return notFound(key)
	}
	st := (&status{Kind: "Status", APIVersion: "v1", Status: "Success", Code: http.StatusOK}).named(key)
	st.Metadata.ResourceVersion = strconv.FormatInt(res.Revision, 10)
	return c.answer(st.Code, append(st.json(), '\n'))
}

// readDelete returns what to delete. Errors: 400, 413, 415.
func (c *call) readDelete() (only condition, err error) {
	body, err := c.body(deleteBytes)
	if err != nil {
		return only, err
	}
	inBody := ""
	if len(bytes.TrimSpace(body)) > 0 {
		if _, err := c.mediaType(false); err != nil {
			return only, err
		}
		if inBody, err = parseDelete(body); err != nil {
			return only, err
		}
	}
	return c.precondition(inBody)
}

// parseDelete parses the body of a DELETE, like Kubernetes' DeleteOptions. It refuses options that ask for another kind
// of deletion. Errors: 400.
func parseDelete(body []byte) (version string, err error) {
	o, err := parseObject(body, deleteForm)
	if err != nil {
		return "", err
	}
	preconditions, err := o.object("preconditions")
	if err != nil {
		return "", err
	}
	if uid, given := preconditions["uid"]; given && !bytes.Equal(uid, null) {
		return "", badRequest("preconditions.uid: objects have no uid in this API; %s", deleteForm)
	}
	if dry, given := o["dryRun"]; given && !bytes.Equal(dry, null) && !bytes.Equal(dry, []byte("[]")) {
		return "", badRequest("dryRun: not supported by this API; %s", deleteForm)
	}
	return preconditions.version("resourceVersion")
}
