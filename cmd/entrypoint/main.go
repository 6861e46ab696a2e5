// Command entrypoint starts what a container of the image is asked to run. If the first argument names a program of
// the image, by name or path, it becomes that program: etcd, etcdctl or etcdutl, as in etcd's image, or kine.
// Otherwise the arguments are sqlstore's. Without arguments it serves.
//
// It replaces itself, so the program receives the container's signals.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// programs is the directory of the image's programs. It is in the PATH that container engines set by default.
const programs = "/usr/local/bin"

func main() {
	path, args := program(os.Args[1:], exists)
	err := syscall.Exec(path, args, os.Environ())
	fmt.Fprintf(os.Stderr, "entrypoint: run %s: %v\n", path, err)
	os.Exit(127)
}

// program returns the program to run, and its arguments with its name.
func program(args []string, exists func(path string) bool) (path string, all []string) {
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		path := args[0]
		if !filepath.IsAbs(path) {
			path = filepath.Join(programs, path)
		}
		if exists(path) {
			return path, args
		}
	}
	return filepath.Join(programs, "sqlstore"), append([]string{"sqlstore"}, args...)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
