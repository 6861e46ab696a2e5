package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/pages"
)

// goTest stands in for go: it fails unless it is `go test` with a -run that matches a test of the packages. Only a test
// that takes no time really runs.
const goTest = `#!/bin/bash
set -euo pipefail
go=%q
[ "$1" = test ]
packages=() run=
for (( i = 2; i <= $#; i++ )); do
	case ${!i} in
	-run) i=$((i + 1)); run=${!i} ;;
	-timeout | -p) i=$((i + 1)) ;;
	-*) ;;
	*) packages+=("${!i}") ;;
	esac
done
[ "$run" ] || { echo "go $*: no -run"; exit 1; }
format='{{$dir := .Dir}}{{range .TestGoFiles}}{{$dir}}/{{println .}}{{end}}'
files=$("$go" list -f "$format${format//Test/XTest}" "${packages[@]}")
IFS=$'\n'
sed -n 's/^func \(Test[A-Za-z0-9_]*\)(t .*/\1/p' $files | grep -E -- "$run" >/dev/null ||
	{ echo "go $*: no test matches $run"; exit 1; }
case "${packages[*]}" in ./paging) exec "$go" "$@" ;; esac
`

// makeTest stands in for make: it runs only the target's calls of go, which are those above, and fails if there is none
// or if one of the given variables neither reaches it nor makes make refuse the value.
const makeTest = `#!/bin/bash
set -euo pipefail
make=%q
unset RERUN MAKEFLAGS # set by the gate, or by make: gotestsum calls go then
calls() { "$make" --no-print-directory --dry-run "$@" | grep 'go test'; }
for variable in "${@:2}"; do
	printed=$("$make" --no-print-directory --dry-run "$@" "${variable%%%%=*}=reaches-the-test" 2>&1) || true
	grep -E '(go test|[*]{3}).*reaches-the-test|reaches-the-test.*go test' <<<"$printed" >/dev/null ||
		{ echo "make $1 does not use ${variable%%%%=*}"; exit 1; }
done
lines=$(calls "$@")
eval "$lines"
`

// The commands that run single tests name targets, variables, packages and tests that exist.
func TestContributing(t *testing.T) {
	programs, dir := map[string]string{}, t.TempDir()
	for name, script := range map[string]string{"go": goTest, "make": makeTest} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		programs[name] = filepath.Join(dir, name)
		if err := os.WriteFile(programs[name], fmt.Appendf(nil, script, path), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	pages.Run(t, pages.Contributing, pages.Setup{Programs: programs, Dir: pages.Root(t)})
}
