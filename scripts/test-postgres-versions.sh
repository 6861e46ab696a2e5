#!/bin/sh
# Runs the Postgres backend's version-dependent tests on each given version: test-postgres-versions.sh 13 15 17 18
# Containers provide any version. Without them, it tests the machine's and reports the others as not tested.
set -eu
cd "$(dirname "$0")/.."

export SQLSTORE_TEST_WHOLE=1 # in every mode of pgx

run() {
	# The suites, the plans of queries and of the verification, and the limits of a transaction.
	go test -race -count=1 -timeout 40m \
		-run '^(TestSuite|TestShared|TestPlans|TestPlansOfAVerification|TestHolder.*|TestCommitIsNeverCancelled)$' \
		./backend/postgres
	go test -race -count=1 -timeout 20m -run Postgres ./schema
}

if [ -n "${SQLSTORE_TEST_POSTGRES:-}" ]; then
	echo "Postgres: only the server of SQLSTORE_TEST_POSTGRES, NOT each of $*" >&2
	run
elif command -v docker >/dev/null && timeout 20 docker version >/dev/null 2>&1; then
	for version; do
		echo "Postgres $version"
		SQLSTORE_TEST_POSTGRES_VERSION=$version run
	done
else
	echo "Postgres: only the installed version, NOT each of $*, which needs Docker" >&2
	run
fi
