// Package docs runs the commands on the repository's pages that need etcdctl, etcdutl or Postgres.
package docs
