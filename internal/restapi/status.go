package restapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/paging"
)

// Status is Kubernetes' object of that name, as far as this API uses it.
type status struct {
	Kind       string         `json:"kind"`
	APIVersion string         `json:"apiVersion"`
	Metadata   statusMeta     `json:"metadata"`
	Status     string         `json:"status"`
	Message    string         `json:"message,omitempty"`
	Reason     string         `json:"reason,omitempty"`
	Details    *statusDetails `json:"details,omitempty"`
	Code       int            `json:"code"`
	allow      string
}

type statusMeta struct {
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Continue        string `json:"continue,omitempty"`
}

type statusDetails struct {
	Name              string        `json:"name,omitempty"`
	Causes            []statusCause `json:"causes,omitempty"`
	RetryAfterSeconds int           `json:"retryAfterSeconds,omitempty"`
}

type statusCause struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// The reasons, in Kubernetes' words.
const (
	reasonBadRequest   = "BadRequest"
	reasonUnauthorized = "Unauthorized"
	reasonForbidden    = "Forbidden"
	reasonNotFound     = "NotFound"
	reasonExists       = "AlreadyExists"
	reasonConflict     = "Conflict"
	reasonExpired      = "Expired"
	reasonTimeout      = "Timeout"
	reasonMethod       = "MethodNotAllowed"
	reasonTooLarge     = "RequestEntityTooLarge"
	reasonMediaType    = "UnsupportedMediaType"
	reasonTooMany      = "TooManyRequests"
	reasonUnavailable  = "ServiceUnavailable"
	reasonInternal     = "InternalError"
)

func failure(code int, reason, message string) *status {
	return &status{Kind: "Status", APIVersion: "v1", Status: "Failure", Code: code, Reason: reason, Message: message}
}

// Error makes a status an error that is sent unchanged.
func (s *status) Error() string { return s.Message }

func (s *status) json() []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false) // for human readers
	if err := e.Encode(s); err != nil {
		panic(err) // strings and numbers always marshal
	}
	return bytes.TrimSuffix(out.Bytes(), []byte{'\n'})
}

func (s *status) retryAfter() int {
	if s.Details == nil {
		return 0
	}
	return s.Details.RetryAfterSeconds
}

func (s *status) named(key []byte) *status {
	s.Details = &statusDetails{Name: string(key)}
	return s
}

func (s *status) retry(seconds int) *status {
	if s.Details == nil {
		s.Details = &statusDetails{}
	}
	s.Details.RetryAfterSeconds = seconds
	return s
}

// Problems with a parameter.
var (
	errNumber  = errors.New("is not a non-negative integer")
	errBoolean = errors.New("is neither true nor false")
	errVersion = errors.New("is not a resource version, which is an integer")
)

func badRequest(format string, args ...any) *status {
	return failure(http.StatusBadRequest, reasonBadRequest, fmt.Sprintf(format, args...))
}

func notServed(path string) *status {
	return failure(http.StatusNotFound, reasonNotFound, fmt.Sprintf("nothing is served at %q: objects are at "+
		"%s<key>, and %s describes the API", path, objectsPath, openapiPath))
}

func methodNotAllowed(method, allow string) *status {
	st := failure(http.StatusMethodNotAllowed, reasonMethod,
		fmt.Sprintf("the method %q is not allowed for this path, only %s", method, allow))
	st.allow = allow
	return st
}

func notFound(key []byte) *status {
	return failure(http.StatusNotFound, reasonNotFound, fmt.Sprintf("object %q not found", key)).named(key)
}

func alreadyExists(key []byte) *status {
	return failure(http.StatusConflict, reasonExists,
		fmt.Sprintf("object %q already exists: to update it, send its current resourceVersion", key)).named(key)
}

func conflict(key []byte, wanted, has int64) *status {
	return failure(http.StatusConflict, reasonConflict, fmt.Sprintf(
		"object %q has resourceVersion %d, not %d: it has been modified; apply your changes to the latest version "+
			"and try again", key, has, wanted)).named(key)
}

// Kubernetes' texts for versions that are gone.
const (
	listExpired      = "The resourceVersion for the provided list is too old."
	listExpiredToken = listExpired + " The continue token in this response lists from the beginning, at the " +
		"latest version."
	watchExpired    = "The resourceVersion for the provided watch is too old."
	continueExpired = "The provided continue parameter is too old to display a consistent list result. You can " +
		"start a new list without the continue parameter."
	inconsistentContinue = "The provided continue parameter is too old to display a consistent list result. You can " +
		"start a new list without the continue parameter, or use the continue token in this response to retrieve the " +
		"remainder of the results. Continuing with the provided token results in an inconsistent list - objects that " +
		"were created, modified, or deleted between the time the first chunk was returned and now may show up in the " +
		"list."
)

func expired(message string) *status {
	return failure(http.StatusGone, reasonExpired, message)
}

// errorTable maps errors to answers. The first match counts; paging's typed errors are checked before it.
var errorTable = []struct {
	from    error
	code    int
	reason  string
	message string // "" for the error's own
	retry   int    // seconds
}{
	{paging.ErrInvalid, http.StatusBadRequest, reasonBadRequest, "", 0},
	{store.ErrCompacted, http.StatusGone, reasonExpired, listExpired, 0},
	{backend.ErrUnknownTime, http.StatusGone, reasonExpired, "", 0},
	{store.ErrFutureRevision, http.StatusGatewayTimeout, reasonTimeout, paging.ErrTooLarge.Error(), 1},
	{
		store.ErrTooManyRequests, http.StatusTooManyRequests, reasonTooMany, "too many requests are waiting: try again",
		1,
	},
	{store.ErrQuota, http.StatusServiceUnavailable, reasonUnavailable, "NOSPACE: the database has reached its quota; " +
		"compact, defragment and disarm the alarm, or raise the quota", 0},
	{
		backend.ErrNoSpace, http.StatusServiceUnavailable, reasonUnavailable, "NOSPACE: the database's disk is full",
		0,
	},
	{
		store.ErrCorrupt, http.StatusServiceUnavailable, reasonUnavailable,
		"CORRUPT: the alarm is raised, and nothing is written until it is cleared", 0,
	},
	{
		backend.ErrCorrupt, http.StatusInternalServerError, reasonInternal,
		"CORRUPT: the database returned something that does not match its checksum; see the server's log", 0,
	},
	{
		backend.ErrRejected, http.StatusBadRequest, reasonBadRequest,
		"the database refused the contents of the request",
		0,
	},
	{
		store.ErrTxnTooLarge, http.StatusServiceUnavailable, reasonUnavailable,
		"the lease has too many keys to list while the server still loads its index: try again", 1,
	},
	{store.ErrClosed, http.StatusServiceUnavailable, reasonUnavailable, "the server is stopping", 1},
	{store.ErrWatchClosed, http.StatusServiceUnavailable, reasonUnavailable, "the server is stopping", 1},
	{backend.ErrClosed, http.StatusServiceUnavailable, reasonUnavailable, "the server is stopping", 1},
	{
		backend.ErrUnknownOutcome, http.StatusGatewayTimeout, reasonTimeout,
		"the outcome of the write is unknown: read the object before you try again", 0,
	},
	{
		store.ErrUnavailable, http.StatusServiceUnavailable, reasonUnavailable,
		"the database is unavailable: try again",
		1,
	},
	{os.ErrDeadlineExceeded, http.StatusRequestTimeout, reasonTimeout, "the request's body took too long to arrive", 0},
	{
		context.DeadlineExceeded, http.StatusGatewayTimeout, reasonTimeout,
		"the request took too long; a write may have been done", 1,
	},
	{context.Canceled, http.StatusServiceUnavailable, reasonUnavailable, "the server is stopping", 1},
}

// status converts err for the client.
func (c *call) status(err error) *status {
	if st, ok := errors.AsType[*status](err); ok {
		if st.allow != "" {
			c.w.Header().Set("Allow", st.allow)
		}
		return st
	}
	if e, ok := errors.AsType[*paging.ExpiredError](err); ok {
		return expiredList(e, c.opts.token != "")
	}
	if e, ok := errors.AsType[*paging.TooLargeError](err); ok {
		st := failure(http.StatusGatewayTimeout, reasonTimeout, e.Error()).retry(1)
		st.Details.Causes = []statusCause{{"ResourceVersionTooLarge", paging.ErrTooLarge.Error()}}
		return st
	}
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return bodyTooLarge(e.Limit)
	}
	if st := c.refusal(err); st != nil {
		return st
	}
	if e, ok := errors.AsType[*backend.Refusal](err); ok {
		return failure(http.StatusServiceUnavailable, reasonUnavailable, e.Reason)
	}
	for i := range errorTable {
		e := &errorTable[i]
		if !errors.Is(err, e.from) {
			continue
		}
		message := e.message
		if message == "" {
			message = err.Error()
		}
		st := failure(e.code, e.reason, message)
		if e.retry > 0 {
			st = st.retry(e.retry)
		}
		return st
	}
	c.s.o.Logger.Error("a request failed", "method", c.r.Method, "path", c.r.URL.Path, "error", err)
	return failure(http.StatusInternalServerError, reasonInternal, "internal error; see the server's log")
}

// expiredList is the 410 of a list, with a token that restarts it if there is one.
func expiredList(e *paging.ExpiredError, continued bool) *status {
	st := expired(listExpired)
	st.Metadata.Continue = e.Continue
	switch token := e.Continue != ""; {
	case continued && token:
		st.Message = inconsistentContinue
	case continued:
		st.Message = continueExpired
	case token:
		st.Message = listExpiredToken
	}
	return st
}

func bodyTooLarge(limit int64) *status {
	return failure(http.StatusRequestEntityTooLarge, reasonTooLarge,
		fmt.Sprintf("the body is too large: the limit is %d bytes", limit))
}

func requestTooLarge(limit int) *status {
	return failure(http.StatusRequestEntityTooLarge, reasonTooLarge,
		fmt.Sprintf("the request is too large: the limit is %d bytes", limit))
}
