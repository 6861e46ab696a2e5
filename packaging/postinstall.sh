#!/bin/sh
# Also runs after an upgrade. It starts nothing that did not run before.
set -e
systemd-sysusers sqlstore.conf
install -d -o sqlstore -g sqlstore -m 0700 /var/lib/sqlstore
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart sqlstore.service ||
		echo "sqlstore did not start again: see 'systemctl status sqlstore'" >&2
fi
