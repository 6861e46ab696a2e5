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
bin=$context/root/usr/local/bin
written=$context/written
# A new volume takes its owner from the directory that it covers: those that etcd's documentation, testcontainers and
# Kubernetes mount exist, too.
mkdir -p "$bin" "$context/root/bin" "$context/root/etc/ssl/certs" "$written/data" "$written/tmp" "$written/etcd-data" \
	"$written/data.etcd" "$written/var/lib/etcd"
chmod 755 "$context/root" "$written" "$written/var" "$written/var/lib"
chmod 700 "$written/data" "$written/etcd-data" "$written/data.etcd" "$written/var/lib/etcd"

began=$(date +%s)
echo "image: compiling static programs, which takes minutes the first time" >&2
# A static binary cannot load libraries: SQLite has no extensions, and Go looks up hosts and users itself.
CGO_ENABLED=1 go build -trimpath -tags sqlite_omit_load_extension,netgo,osusergo \
	-ldflags '-s -w -linkmode external -extldflags "-static"' -o "$bin/sqlstore" ./cmd/sqlstore
ln -s sqlstore "$bin/etcd"
ln -s sqlstore "$bin/kine"
ln -s ../usr/local/bin/sqlstore "$context/root/bin/kine" # where kine's image has it
CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$bin/entrypoint" ./cmd/entrypoint
# In the versions that the tests use.
(cd test && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$bin/" \
	go.etcd.io/etcd/etcdctl/v3 go.etcd.io/etcd/etcdutl/v3)
echo 'sqlstore:x:65532:65532::/data:/usr/local/bin/sqlstore' >"$context/root/etc/passwd"
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
