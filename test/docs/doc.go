// Package docs checks the repository's pages: links, blocks and lengths, and it runs the commands that need nothing but
// sqlstore. Commands that need more run in the suites that have it; see package pages.
package docs
