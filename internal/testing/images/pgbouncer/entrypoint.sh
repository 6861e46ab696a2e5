#!/bin/bash
# PgBouncer on port 6432 in front of the server POSTGRES_HOST:POSTGRES_PORT, for the user POSTGRES_USER with
# POSTGRES_PASSWORD. It serves every database of that server under its name. POOL_MODE is transaction by default,
# POOL_SIZE 20; SETTINGS has further lines of the [pgbouncer] section. Arguments (a configuration file, options) replace
# all of this.
set -euo pipefail
[ $# = 0 ] || exec pgbouncer "$@"

dir=$(mktemp -d)
printf '"%s" "%s"\n' "${POSTGRES_USER:-postgres}" "${POSTGRES_PASSWORD:?set POSTGRES_PASSWORD}" >"$dir/users"
cat >"$dir/pgbouncer.ini" <<INI
[databases]
* = host=${POSTGRES_HOST:?set POSTGRES_HOST} port=${POSTGRES_PORT:-5432}
[pgbouncer]
listen_addr = *
listen_port = 6432
unix_socket_dir =
auth_type = scram-sha-256
auth_file = $dir/users
admin_users = ${POSTGRES_USER:-postgres}
pool_mode = ${POOL_MODE:-transaction}
default_pool_size = ${POOL_SIZE:-20}
max_client_conn = 1000
${SETTINGS:-}
INI
exec pgbouncer "$dir/pgbouncer.ini"
