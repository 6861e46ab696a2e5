// Package docs checks the repository's pages (links, code blocks, lengths) and runs the commands that need only
// sqlstore. The other suites run the commands that need more; see package pages.
package docs
