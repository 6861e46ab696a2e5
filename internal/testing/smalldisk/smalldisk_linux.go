// Package smalldisk runs tests on a small file system, which can be filled or made read-only.
package smalldisk

import (
	"bytes"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/sqlstore/sqlstore/internal/testing/env"
)

// role is what the child process of a test is.
const role = "on a small disk"

// Run runs f on a file system of a size, such as 4m, which a child process of this test mounts for itself only. Without
// root this needs a kernel with user namespaces.
func Run(t *testing.T, size string, f func(t *testing.T, dir string)) {
	t.Helper()
	if dir, ok := env.IsChild(role); ok {
		// Where mounts are shared with the rest of the machine, it would get this one too.
		if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
			t.Fatalf("make mounts private: %v", err)
		}
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
			t.Fatalf("mount a small file system: %v", err)
		}
		f(t, dir)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), env.AsChild(role, t.TempDir()))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Errorf("%v\n%s", err, out)
	}
}

// MakeReadOnly makes the file system at a directory of Run's read-only.
func MakeReadOnly(t *testing.T, dir string) {
	t.Helper()
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatalf("remount: %v", err)
	}
}
