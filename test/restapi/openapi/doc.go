// Package openapi checks the answers of the list/watch API against the OpenAPI description that the server itself
// serves.
package openapi
