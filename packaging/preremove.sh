#!/bin/sh
# Debian says what it does: remove or upgrade. RPM gives the number of versions that will remain.
set -e
case "$1" in
remove | 0)
	systemctl --quiet disable sqlstore.service
	[ ! -d /run/systemd/system ] || systemctl stop sqlstore.service
	;;
esac
