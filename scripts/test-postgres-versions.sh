#!/bin/sh
# Runs those of the Postgres backend's tests that a version may decide on every one given: test-postgres-versions.sh 13 15 17 18
# Containers have any version. Without them there is the machine's, and the others are named as not tested.
set -eu
cd "$(dirname "$0")/.."

run() {
	# The suites, what the planner makes of the statements, and what bounds a transaction.
	go test -race -count=1 -timeout 20m -run '^(TestSuite|TestShared|TestPlans|TestHolder.*|TestCommitIsNeverCancelled)$' ./backend/postgres
	go test -race -count=1 -timeout 20m -run Postgres ./schema
}

if [ -n "${SQLSTORE_TEST_POSTGRES:-}" ]; then
	echo "Postgres: the server of SQLSTORE_TEST_POSTGRES, whatever its version, NOT each of $*" >&2
	run
elif command -v docker >/dev/null && timeout 20 docker version >/dev/null 2>&1; then
	for version; do
		echo "Postgres $version"
		SQLSTORE_TEST_POSTGRES_VERSION=$version run
	done
else
	echo "Postgres: the version installed here, NOT each of $*: that takes Docker" >&2
	run
fi
