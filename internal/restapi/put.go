package restapi

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"

	"github.com/sqlstore/sqlstore/internal/store"
)

// envelope is how much longer a body may be than the value in it, besides base64.
const envelope = 64 << 10

// putLimit is the maximum length of a body that contains a value.
func (o *Options) putLimit() int64 {
	return int64(base64.StdEncoding.EncodedLen(o.MaxRequestBytes)) + envelope
}

func (c *call) put() error {
	value, only, err := c.readPut()
	if err != nil {
		return err
	}
	if limit := c.s.o.MaxRequestBytes; len(c.to.key)+len(value) > limit {
		return requestTooLarge(limit)
	}
	ctx, cancel := c.bounded(c.r.Context())
	defer cancel()
	key := c.to.key
	write := &store.PutRequest{Key: key, Value: value}
	update := only.version > 0 || only.exists
	if update {
		write.PrevKV, write.IgnoreLease = true, true
	}
	res, err := c.s.engine.Txn(ctx, &store.Txn{
		Compare: []store.Compare{only.compare(key)},
		Success: []store.Op{{Put: write}},
		Failure: []store.Op{{Range: &store.RangeRequest{Key: key, KeysOnly: true}}},
	})
	if err != nil {
		return err
	}
	c.revision = res.Revision
	if !res.Succeeded {
		return c.unmet(refused(key, only.version, res.Results[0].Range.Rows))
	}
	row := &store.Row{Key: key, Value: value, ModRevision: res.Revision, CreateRevision: res.Revision}
	if !update {
		return c.answerItem(http.StatusCreated, row)
	}
	prev := res.Results[0].Put.Prev
	row.CreateRevision, row.Lease = prev.CreateRevision, prev.Lease
	return c.answerItem(http.StatusOK, row)
}

// refused explains why a precondition failed; is is the existing row.
func refused(key []byte, wanted int64, is []*store.Row) *status {
	switch {
	case len(is) == 0:
		return notFound(key)
	case wanted == 0:
		return alreadyExists(key)
	}
	return conflict(key, wanted, is[0].ModRevision)
}

// readPut returns the value to put and what it replaces. Errors: 400, 413, 415.
func (c *call) readPut() (value []byte, only condition, err error) {
	media, err := c.mediaType(true)
	if err != nil {
		return nil, only, err
	}
	limit := int64(c.s.o.MaxRequestBytes)
	if media == mediaJSON {
		limit = c.s.o.putLimit()
	}
	body, err := c.body(limit)
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, only, requestTooLarge(c.s.o.MaxRequestBytes) // the limit of the body is derived from this one
	}
	if err != nil {
		return nil, only, err
	}
	given := ""
	if media == mediaBytes {
		value = body
		if value == nil {
			value = []byte{}
		}
	} else if value, given, err = parsePut(body, c.to.key); err != nil {
		return nil, only, err
	}
	only, err = c.precondition(given)
	return value, only, err
}

// parsePut parses the body of a PUT to key. Errors: 400.
func parsePut(body, key []byte) (value []byte, version string, err error) {
	o, err := parseObject(body, putForm)
	if err != nil {
		return nil, "", err
	}
	if value, err = o.value(); err != nil {
		return nil, "", err
	}
	metadata, err := o.object("metadata")
	if err != nil {
		return nil, "", err
	}
	version, err = metadata.version("resourceVersion")
	if err != nil {
		return nil, "", err
	}
	name := shown(key)
	cut := strings.LastIndexByte(name, '/') + 1
	for member, want := range map[string]string{
		"key": name, "namespace": name[:cut], "name": name[cut:], "keyBase64": base64.StdEncoding.EncodeToString(key),
	} {
		if got, given, err := metadata.text(member); err != nil {
			return nil, "", err
		} else if given && got != want {
			return nil, "", badRequest("metadata.%s is %q, but the path's is %q", member, got, want)
		}
	}
	return value, version, nil
}
