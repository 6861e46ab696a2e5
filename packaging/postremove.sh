#!/bin/sh
# The data stays until Debian purges the package. RPM knows no purge. The user stays: files may belong to it.
set -e
if [ "$1" = purge ] && [ -d /var/lib/sqlstore ]; then
	find /var/lib/sqlstore -mindepth 1 -delete
	rmdir /var/lib/sqlstore 2>/dev/null || true # a mount point stays
fi
[ ! -d /run/systemd/system ] || systemctl daemon-reload
