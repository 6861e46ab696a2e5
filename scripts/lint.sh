#!/usr/bin/env bash
# Runs golangci-lint over the modules' packages that differ from the main branch: lint.sh MODULE...
# LINT_ALL=1 runs it over all packages, LINT_BASE=v0.1.0 compares with another commit.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD

base() {
	local main
	for main in origin/main main; do
		git merge-base HEAD "$main" 2>/dev/null && return
	done
	echo HEAD
}

# changed lists the files that differ, including new ones.
changed() {
	git diff --name-only --diff-filter=d "$base"
	git ls-files --others --exclude-standard
}

run() { # MODULE PACKAGE...
	echo "lint $1: ${*:2}"
	(cd "$1" && shift && "$root/bin/golangci-lint" run --config "$root/.golangci.yaml" "$@")
}

if [ -z "${LINT_ALL:-}" ]; then
	base=${LINT_BASE:-$(base)}
	files=$(changed)
	# A change of the linter affects every file.
	if grep -qE '^(\.golangci\.yaml|tools/go\.(mod|sum))$' <<<"$files"; then
		LINT_ALL=1
	fi
fi
status=0
for module; do
	packages=(./...)
	if [ -z "${LINT_ALL:-}" ]; then
		packages=()
		while read -r dir; do
			owner=$dir # the innermost module that contains the package
			until [ -e "$owner/go.mod" ]; do owner=$(dirname "$owner"); done
			[ "$owner" = "$module" ] || continue
			inside=${dir#"$module"}
			packages+=("./${inside#/}")
		done < <(grep '\.go$' <<<"$files" | grep -v '/testdata/' | xargs -r -n1 dirname | sort -u)
		((${#packages[@]})) || continue
	fi
	run "$module" "${packages[@]}" || status=1
done
exit $status
