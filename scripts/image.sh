#!/bin/sh
# Builds the container image of sqlstore: image.sh NAME, for example image.sh sqlstore:dev
set -eu
cd "$(dirname "$0")/.."
image=${1:?name the image}
if ! command -v docker >/dev/null; then
	echo "image: docker is missing: install it (Debian: 'sudo apt-get install docker.io')" >&2
	exit 1
fi

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
mkdir -p "$context/root/etc/ssl/certs" "$context/written/data" "$context/written/tmp"
chmod 755 "$context/root" "$context/written"
chmod 700 "$context/written/data"

began=$(date +%s)
echo "image: compiling a static binary, which takes minutes the first time" >&2
# A static binary cannot load libraries: SQLite has no extensions, and Go looks up hosts and users itself.
CGO_ENABLED=1 go build -trimpath -tags sqlite_omit_load_extension,netgo,osusergo \
	-ldflags '-s -w -linkmode external -extldflags "-static"' -o "$context/root/sqlstore" ./cmd/sqlstore
echo 'sqlstore:x:65532:65532::/data:/sqlstore' >"$context/root/etc/passwd"
# To verify a Postgres certificate that a public authority signed.
for certificates in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt; do
	if [ -f "$certificates" ]; then
		cp "$certificates" "$context/root/etc/ssl/certs/ca-certificates.crt"
		break
	fi
done
echo "image: building $image" >&2
docker build --quiet --file Dockerfile --tag "$image" "$context"
echo "image: built $image in $(($(date +%s) - began)) s" >&2
