#!/bin/sh
# Writes the bill of materials of a program: sbom.sh VERSION DOCUMENT PROGRAM
# The program itself names its Go modules; what is embedded in it besides is added here. .goreleaser.yaml calls it.
set -eu
version=$1 document=$2 program=$3
uplot=$(dirname "$0")/../cmd/sqlstore/internal/console/static/uplot/uPlot.iife.min.js
embedded=$(sed -n '1s/.*(v\([0-9.]*\)).*/\1/p' "$uplot")
[ -n "$embedded" ] || { echo "sbom: $uplot does not begin with its version" >&2; exit 1; }
cyclonedx-gomod bin -json -std -noserial -notimestamp -version "$version" "$program" |
	jq --arg version "$embedded" '("pkg:npm/uplot@" + $version) as $purl | .components += [{
		"bom-ref": $purl, type: "library", name: "uplot", version: $version, purl: $purl,
		licenses: [{license: {id: "MIT"}}]
	}]' >"$document"
