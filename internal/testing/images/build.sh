#!/usr/bin/env bash
# Builds a container image for tests from Debian's packages, on the host and without an image registry:
#   build.sh NAME VERSION [TAG]      build.sh postgres 15      build.sh pgbouncer latest      build.sh patroni 15
# NAME is a directory beside this file. Its recipe sets suite and packages for VERSION, its Dockerfile turns
# rootfs.tar into the image. The last line printed is the image's id.
set -euo pipefail
name=$1 version=$2 tag=${3:-sqlstore-test/$1:$2}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ -f "$here/$name/recipe" ] || { echo "no recipe $name" >&2; exit 1; }

suite='' packages=''
# shellcheck source=/dev/null
. "$here/$name/recipe"

if ! command -v mmdebstrap >/dev/null; then
  command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] ||
    { echo "mmdebstrap is missing: install it ('sudo apt-get install mmdebstrap')" >&2; exit 1; }
  {
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mmdebstrap
  } </dev/null >&2
fi

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
cp "$here/$name"/* "$context/"
chmod 755 "$context"/*.sh # for the image's user, wherever the recipe was copied from
# An expired release file, such as that of an unreleased suite on a lagging mirror, is good enough for tests.
# mmdebstrap ends its whole process group when it fails: setsid gives it a separate one.
setsid --wait mmdebstrap --quiet --variant=minbase --include="$packages" \
  --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='Acquire::Retries "2"' --aptopt='Acquire::http::Timeout "20"' \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' \
  --customize-hook='rm -rf "$1"/var/lib/postgresql/*/main "$1"/etc/postgresql/*' \
  --customize-hook='chroot "$1" install -d -o postgres -g postgres -m 700 /var/lib/postgresql/data' \
  "$suite" "$context/rootfs.tar" </dev/null >&2
# The label tells package images whether the image is of this recipe.
recipe=$(LC_ALL=C && cat "$here/build.sh" "$here/$name"/* | sha256sum | cut -d ' ' -f 1)
docker build --quiet --build-arg "version=$version" --label "recipe=$recipe" --tag "$tag" "$context"
