#!/bin/sh
# Makes sure that tests can start a MariaDB: the server's binaries. It installs them if possible, without
# the packages that would set up and start a service.
set -eu

found=1
for program in mariadbd mariadb-install-db my_print_defaults; do
	command -v "$program" >/dev/null || [ -x "/usr/sbin/$program" ] || found=0
done
[ "$found" = 0 ] || exit 0

if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
	echo "setup: the tests need MariaDB's binaries" \
		"('sudo apt-get install mariadb-server-core mariadb-client-core')" >&2
	exit 1
fi
echo "setup: installing MariaDB's binaries" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq >&2
apt-get install -y -qq --no-install-recommends mariadb-server-core mariadb-client-core </dev/null >&2
