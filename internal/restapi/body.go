package restapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/sqlstore/sqlstore/internal/bodies"
	"github.com/sqlstore/sqlstore/paging"
)

const (
	mediaJSON  = "application/json"
	mediaForm  = "application/x-www-form-urlencoded" // what curl -d sends for any body
	mediaBytes = "application/octet-stream"
)

// putForm describes the body of a PUT, for error messages.
const putForm = `the body must be {"metadata":{"resourceVersion":"..."},"value":<any JSON>}, ` +
	`or with "valueBase64":"..." in place of value; ` +
	`metadata may be omitted. Content-Type application/octet-stream sends the value itself`

// mediaType returns the type of the request's body, "" if it has none. Errors: 400, 415.
func (c *call) mediaType(raw bool) (string, error) {
	if coding := c.r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return "", failure(http.StatusUnsupportedMediaType, reasonMediaType,
			"a body with Content-Encoding "+coding+" is not supported: send it without an encoding")
	}
	given := c.r.Header.Get("Content-Type")
	if given == "" {
		return mediaJSON, nil
	}
	media, _, err := mime.ParseMediaType(given)
	switch {
	case err != nil:
		return "", badRequest("the Content-Type %q cannot be parsed", given)
	case media == mediaJSON || media == mediaForm:
		return mediaJSON, nil
	case raw && media == mediaBytes:
		return mediaBytes, nil
	}
	return "", failure(http.StatusUnsupportedMediaType, reasonMediaType,
		"a body of type "+media+" is not supported: send "+mediaJSON)
}

var errBodies = failure(http.StatusTooManyRequests, reasonTooMany,
	"too many large bodies are being read: try again").retry(1)

// body reads the request's body, which the caller owns. A large one holds its capacity until the request is answered.
// Errors: 400, 408, 429, [*http.MaxBytesError].
func (c *call) body(limit int64) ([]byte, error) {
	// A ResponseWriter without deadlines, as in a test, has none to set.
	abort := func() { _ = c.ctl.SetReadDeadline(time.Unix(1, 0)) }
	_ = c.ctl.SetReadDeadline(time.Time{}) // the budget's limit does not include the wait for capacity
	var body *bodies.Body
	err := c.await(func() (err error) {
		from := http.MaxBytesReader(c.w, c.r.Body, limit)
		body, err = c.s.bodies.Read(c.r.Context(), from, c.r.ContentLength, limit, abort)
		return err
	})
	if err != nil {
		return nil, bodyError(err)
	}
	_ = c.ctl.SetReadDeadline(time.Time{})
	c.held, c.read = body, true
	return body.Bytes, nil
}

// bodyError converts an error of reading a body. The client is to blame, unless the error says otherwise.
func bodyError(err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return err
	}
	switch {
	case errors.Is(err, bodies.ErrFull):
		return errBodies
	case errors.Is(err, bodies.ErrSlow):
		return failure(http.StatusRequestTimeout, reasonTimeout, "the body took too long to arrive")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return badRequest("the body ended before it was complete")
	}
	return badRequest("the body cannot be read: %v", err)
}

// object is a JSON object by its members' exact names.
type object map[string]json.RawMessage

// parseObject parses JSON that must be an object. Errors: 400, which describes form.
func parseObject(body []byte, form string) (object, error) {
	if !utf8.Valid(body) {
		return nil, badRequest("the body is not UTF-8: %s", form)
	}
	var o object
	if err := json.Unmarshal(body, &o); err != nil {
		if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // its text would reveal Go's types
			return nil, badRequest("the body is JSON, but not an object: %s", form)
		}
		return nil, badRequest("the body is not a JSON object (%v): %s", err, form)
	}
	if o == nil { // null
		return nil, badRequest("the body is null: %s", form)
	}
	return o, nil
}

var null = []byte("null")

// text returns a string member; given is false if it is absent or null.
func (o object) text(name string) (s string, given bool, err error) {
	raw, ok := o[name]
	if !ok || bytes.Equal(raw, null) {
		return "", false, nil
	}
	if err := json.Unmarshal(raw, &s); err != nil || raw[0] != '"' {
		return "", false, badRequest("%s must be a string, not %.100s", name, raw)
	}
	return s, true, nil
}

// object returns an object member, nil if it is absent or null. Errors: 400.
func (o object) object(name string) (object, error) {
	var member object
	if raw, ok := o[name]; ok {
		if err := json.Unmarshal(raw, &member); err != nil {
			return nil, badRequest("%s must be an object, not %.100s", name, raw)
		}
	}
	return member, nil
}

// version returns a resource version member. Errors: 400.
func (o object) version(name string) (v string, err error) {
	v, _, err = o.text(name)
	if err == nil {
		if _, wrong := paging.ParseVersion(v); wrong != nil {
			err = badRequest("%s %q %v", name, v, errVersion)
		}
	}
	return v, err
}

// value returns the value in the body of a PUT. Errors: 400.
func (o object) value() ([]byte, error) {
	asJSON, isJSON := o["value"]
	encoded, isEncoded, err := o.text("valueBase64")
	switch {
	case err != nil:
		return nil, err
	case isJSON && isEncoded:
		return nil, badRequest("the body has both value and valueBase64: %s", putForm)
	case isJSON:
		return asJSON, nil
	case !isEncoded:
		return nil, badRequest("the body has neither value nor valueBase64: %s", putForm)
	}
	value, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, badRequest("valueBase64 is not base64: %v", err)
	}
	return value, nil
}
