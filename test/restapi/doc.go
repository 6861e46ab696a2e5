// Package restapi is the root of the tests that compare the list/watch API over HTTP/JSON with its documentation.
//
//	openapi/   the description that the server serves is valid, and its answers match it
//	e2e/       the API of the real binary, from start to stop
package restapi
