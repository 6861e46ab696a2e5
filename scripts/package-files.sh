#!/bin/sh
# Writes what the packages hold besides the program, made by the program: package-files.sh SQLSTORE
# The man pages have the date of SOURCE_DATE_EPOCH. .goreleaser.yaml calls it, and takes the files from .cache/packages.
set -eu
cd "$(dirname "$0")/.."
sqlstore=$1
to=.cache/packages
rm -rf "$to"
mkdir -p "$to/man" "$to/completions"
"$sqlstore" man "$to/man"
gzip -9n "$to"/man/*
for shell in bash zsh fish; do
	"$sqlstore" completion "$shell" >"$to/completions/$shell"
done
