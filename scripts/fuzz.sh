#!/bin/sh
# Runs every fuzz test of the main module for the given time, one after another, because go test
# accepts only one.
set -eu
cd "$(dirname "$0")/.."
for_time=${1:-30s}
grep -rnoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . --exclude-dir=test |
	sed -E 's|^(.*)/[^/]+:[0-9]+:func (.*)$|\1 \2|' |
	while read -r package name; do
		go test -run '^$' -fuzz "^$name\$" -fuzztime "$for_time" "$package" </dev/null
	done
