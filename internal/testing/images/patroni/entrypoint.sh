#!/bin/bash
# One member of a Patroni cluster, Postgres on port 5432 and Patroni's REST API on 8008. Required: ETCD_HOSTS
# (HOST:PORT, ...) and POSTGRES_PASSWORD. NAME is the host's name by default, and other members reach it as ADDRESS, by
# default the same.
# TTL (30 s), LOOP_WAIT (10 s) and RETRY_TIMEOUT (10 s) are Patroni's; SYNCHRONOUS (true) is its synchronous_mode.
# PATRONI_... variables take precedence over these. An argument, the path of a file, replaces the whole configuration.
set -euo pipefail
[ $# = 0 ] || exec patroni "$@"

name=${NAME:-$(hostname)} address=${ADDRESS:-$(hostname)} password=${POSTGRES_PASSWORD:?set POSTGRES_PASSWORD}
config=$(mktemp --suffix=.yml)
cat >"$config" <<YAML
scope: ${SCOPE:-sqlstore}
name: $name
restapi:
  listen: 0.0.0.0:8008
  connect_address: $address:8008
etcd3:
  hosts: [${ETCD_HOSTS:?set ETCD_HOSTS}]
bootstrap:
  dcs:
    ttl: ${TTL:-30}
    loop_wait: ${LOOP_WAIT:-10}
    retry_timeout: ${RETRY_TIMEOUT:-10}
    maximum_lag_on_failover: 1048576
    synchronous_mode: ${SYNCHRONOUS:-true}
    postgresql:
      use_pg_rewind: true
      use_slots: true
  initdb:
  - encoding: UTF8
  - locale: C.UTF-8
  - data-checksums
  pg_hba:
  - local all all trust
  - host all all all scram-sha-256
  - host replication all all scram-sha-256
postgresql:
  listen: 0.0.0.0:5432
  connect_address: $address:5432
  data_dir: $PGDATA
  bin_dir: $(dirname "$(command -v postgres)")
  pgpass: /tmp/pgpass
  authentication:
    superuser: {username: postgres, password: '$password'}
    replication: {username: replicator, password: '$password'}
    rewind: {username: rewinder, password: '$password'}
  parameters:
    unix_socket_directories: /tmp
    password_encryption: scram-sha-256
YAML

# Patroni ends if its store does not answer when it starts. A service manager would start it again.
trap 'kill "$patroni"; wait "$patroni"; exit' TERM INT
until patroni "$config" & patroni=$!; wait "$patroni"; do
	echo "Patroni ended; it starts again" >&2
	sleep 1
done
