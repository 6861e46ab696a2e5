#!/bin/sh
# Makes sure that tests can use a Postgres: your own server, a container engine or the server's binaries.
# Otherwise it installs the binaries if possible; it sets up and starts no service. With the argument
# "programs" only the binaries will do.
set -eu

if [ "${1:-}" != programs ]; then
	[ -z "${SQLSTORE_TEST_POSTGRES:-}" ] || exit 0
	if command -v docker >/dev/null && timeout 20 docker version >/dev/null 2>&1; then exit 0; fi
fi
if command -v postgres >/dev/null; then exit 0; fi
for postgres in /usr/lib/postgresql/*/bin/postgres /usr/pgsql-*/bin/postgres \
	/opt/homebrew/opt/postgresql@*/bin/postgres "$(pg_config --bindir 2>/dev/null)/postgres"; do
	if [ -x "$postgres" ]; then exit 0; fi
done

if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
	echo "setup: the tests need a Postgres: start Docker, or install Postgres's binaries" \
		"('sudo apt-get install postgresql'), or set SQLSTORE_TEST_POSTGRES to the DSN of a server" >&2
	exit 1
fi
echo "setup: installing Postgres's binaries" >&2
# Debian's package would create a cluster and start it.
drop=/etc/postgresql-common/createcluster.d
no_cluster=$drop/sqlstore-test.conf
mkdir -p "$drop"
trap 'rm -f "$no_cluster"' EXIT
echo 'create_main_cluster = false' >"$no_cluster"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq >&2
apt-get install -y -qq --no-install-recommends postgresql </dev/null >&2
