// Package restapi is the root of the tests that hold the list/watch API over HTTP/JSON against what is written of it,
// in a module of their own because of what a validator of OpenAPI depends on.
//
//	openapi/   the description that the server serves is a valid one, and its answers are as it says
//	e2e/       the API of the real binary, from start to stop
package restapi
