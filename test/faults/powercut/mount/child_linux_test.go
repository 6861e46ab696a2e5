package mount

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sqlstore/sqlstore/internal/testing/env"
)

// The tests use the mounted disk in another process, a second run of this program: see the package documentation.
const role = "on the disk"

func TestMain(m *testing.M) {
	name, ok := env.IsChild(role)
	if !ok {
		os.Exit(m.Run())
	}
	if err := children[name](os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run runs one of the children in the mounted directory and returns its error.
func run(dir, name string) error {
	cmd := exec.Command(os.Args[0], dir)
	cmd.Env = append(os.Environ(), env.AsChild(role, name))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// children use a mounted directory.
var children = map[string]func(dir string) error{
	"write": func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "file"), []byte("written"), 0o600)
	},
	"sync": func(dir string) error {
		f, err := os.OpenFile(filepath.Join(dir, "file"), os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	},
	"sync directory": func(dir string) error {
		f, err := os.Open(dir)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	},
	"append synchronously": func(dir string) error {
		f, err := os.OpenFile(filepath.Join(dir, "file"), os.O_WRONLY|os.O_APPEND|syscall.O_DSYNC, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteString(", appended")
		return errors.Join(err, f.Close())
	},
	"map": mapped,
	"use": use,
}

// mapped writes to mapped memory and syncs the file.
func mapped(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, "file"), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	memory, err := unix.Mmap(int(f.Fd()), 0, len("written"), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	if string(memory) != "written" {
		return fmt.Errorf("mapped %q", memory)
	}
	copy(memory, "changed")
	return errors.Join(f.Sync(), unix.Munmap(memory))
}

// use does what databases do with files, and checks what it sees.
func use(dir string) error {
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.MkdirAll(at("a/b"), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(at("a/one"), []byte(strings.Repeat("1", 100_000)), 0o600); err != nil {
		return err
	}
	f, err := os.OpenFile(at("a/one"), os.O_RDWR|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("two"), 5000); err != nil {
		return err
	}
	if err := unix.Fallocate(int(f.Fd()), 0, 0, 10_000); err != nil {
		return fmt.Errorf("allocate: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	if err := os.Rename(at("a/one"), at("a/b/two")); err != nil {
		return err
	}
	if err := os.Link(at("a/b/two"), at("a/three")); err != nil {
		return err
	}
	if err := os.Remove(at("a/b/two")); err != nil {
		return err
	}
	if err := os.Remove(at("a/b")); err != nil {
		return err
	}
	b, err := os.ReadFile(at("a/three"))
	if err != nil || len(b) != 10_000 || string(b[5000:5003]) != "two" || strings.Trim(string(b[:5000]), "\x00") != "" {
		return fmt.Errorf("read %d bytes: %w", len(b), err)
	}
	info, err := f.Stat()
	if err != nil || info.Size() != 10_000 || info.Sys().(*syscall.Stat_t).Nlink != 1 {
		return fmt.Errorf("stat: %v: %w", info, err)
	}
	list, err := os.ReadDir(at("a"))
	if err != nil || len(list) != 1 || list[0].Name() != "three" {
		return fmt.Errorf("list %v: %w", list, err)
	}
	return os.RemoveAll(at("a"))
}
