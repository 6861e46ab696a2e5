#!/bin/sh
# Makes sure that packages can be built: C compilers for amd64 and arm64 with a static C library, and jq. With the
# argument "suite" also that the suite can install them in a system of their own and run the programs of arm64.
set -eu

missing=
# need PROGRAM PACKAGE... notes the packages of a program that is missing.
need() {
	command -v "$1" >/dev/null && return
	shift
	missing="$missing $*"
}
need x86_64-linux-gnu-gcc gcc-x86-64-linux-gnu libc6-dev-amd64-cross
need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu libc6-dev-arm64-cross
need jq jq
if [ "${1:-}" = suite ]; then
	need mmdebstrap mmdebstrap
	need systemd-nspawn systemd-container
	need systemd-analyze systemd
	need nsenter util-linux
	need rpm rpm
	need qemu-aarch64-static qemu-user-static
fi
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
	echo "setup: packages are missing: run 'sudo apt-get install$missing' on Debian or Ubuntu" >&2
	exit 1
fi
echo "setup: installing$missing" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq >&2
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $missing </dev/null >&2
