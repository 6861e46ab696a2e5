#!/bin/sh
# The data stays until Debian purges the package. RPM knows no purge. The user stays: files may belong to it.
set -e
[ "$1" != purge ] || rm -rf /var/lib/sqlstore
[ ! -d /run/systemd/system ] || systemctl daemon-reload
