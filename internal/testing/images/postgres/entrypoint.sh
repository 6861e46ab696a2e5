#!/bin/bash
# Creates the cluster at the first start, then becomes postgres with the arguments given. It
# supports the official image's variables POSTGRES_USER, POSTGRES_PASSWORD, their _FILE forms, POSTGRES_DB and
# POSTGRES_INITDB_ARGS. PRIMARY_CONNINFO ("host=... user=... password=... application_name=...") makes it a streaming
# standby of that server instead.
set -euo pipefail
[ "${1:-postgres}" = postgres ] || exec "$@"
shift || true

user=${POSTGRES_USER:-postgres} password=${POSTGRES_PASSWORD:-}
[ -z "${POSTGRES_USER_FILE:-}" ] || user=$(<"$POSTGRES_USER_FILE")
[ -z "${POSTGRES_PASSWORD_FILE:-}" ] || password=$(<"$POSTGRES_PASSWORD_FILE")
db=${POSTGRES_DB:-$user}

create() {
  [ -n "$password" ] || { echo "set POSTGRES_PASSWORD or POSTGRES_PASSWORD_FILE" >&2; exit 1; }
  # shellcheck disable=SC2086 # several arguments
  initdb --username="$user" --pwfile=<(printf '%s\n' "$password") --auth=scram-sha-256 \
    --encoding=UTF8 --locale=C.UTF-8 ${POSTGRES_INITDB_ARGS:-} >/dev/null
  printf 'host all all all scram-sha-256\nhost replication all all scram-sha-256\n' >>"$PGDATA/pg_hba.conf"
  printf "listen_addresses='*'\nunix_socket_directories='/tmp'\n" >>"$PGDATA/postgresql.conf"
  [ "$db" != postgres ] || return 0
  # Without an address, clients cannot consider the server ready before its database exists.
  pg_ctl -D "$PGDATA" -w -o "-c listen_addresses=''" start >/dev/null
  PGPASSWORD=$password PGHOST=/tmp createdb --username="$user" --maintenance-db=postgres "$db"
  pg_ctl -D "$PGDATA" -w -m fast stop >/dev/null
}

mkdir -p "$PGDATA" && chmod 700 "$PGDATA"
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  if [ -n "${PRIMARY_CONNINFO:-}" ]; then
    pg_basebackup --pgdata="$PGDATA" --wal-method=stream --write-recovery-conf --checkpoint=fast \
      --no-sync --dbname="$PRIMARY_CONNINFO"
  else
    create
  fi
fi
exec postgres "$@"
