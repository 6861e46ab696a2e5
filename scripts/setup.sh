#!/bin/sh
# Makes sure that the repository can be built: Go, in the version that go.mod names, and the C compiler
# that SQLite needs. It installs what is missing if possible, and otherwise says how to get it.
# Arguments name more programs that a target needs, each by the name of its Debian package.
set -eu
cd "$(dirname "$0")/.."

fail() {
	echo "setup: $*" >&2
	exit 1
}

# apt_install PACKAGE... installs packages if apt-get and root are available, else it returns false.
apt_install() {
	command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] || return
	echo "setup: installing $*" >&2
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq >&2 && apt-get install -y -qq --no-install-recommends "$@" </dev/null >&2
}

for tool; do
	command -v "$tool" >/dev/null || apt_install "$tool" ||
		fail "$tool is missing: install the package of this name ('sudo apt-get install $tool')"
done

command -v go >/dev/null || fail "Go is missing: install it from https://go.dev/dl/ and put its bin directory into PATH"
# An older Go downloads the version that go.mod names, or says why it cannot.
go env GOVERSION >/dev/null || fail "the installed Go cannot provide the version that go.mod names"

# go env's CC may contain options after the command.
# shellcheck disable=SC2046
set -- $(go env CC)
if ! command -v "$1" >/dev/null; then
	if apt_install gcc libc6-dev; then
		command -v "$1" >/dev/null || fail "CC is $1, which does not exist: unset it, gcc is installed"
	elif command -v apt-get >/dev/null; then
		fail "a C compiler is missing: run 'sudo apt-get install gcc libc6-dev', or set CC to yours"
	else
		fail "a C compiler ($1) is missing: install gcc or clang with the C library's headers, or set CC to yours"
	fi
fi
[ "$(go env CGO_ENABLED)" = 1 ] ||
	fail "CGO_ENABLED is $(go env CGO_ENABLED): SQLite needs cgo, unset it or set it to 1"
