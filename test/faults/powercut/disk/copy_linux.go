package disk

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Import copies the files below a directory of the machine to the root directory, all of them synced.
func (d *Disk) Import(from string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := filepath.WalkDir(from, func(p string, e fs.DirEntry, err error) error {
		if err != nil || p == from {
			return err
		}
		name, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		parent, err := d.find("/" + filepath.Dir(name))
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || !e.IsDir() && !e.Type().IsRegular() {
			return fmt.Errorf("%s is neither a file nor a directory", p)
		}
		n := d.add(st.Mode, st.Uid, st.Gid, "")
		if !e.IsDir() {
			if n.saved, err = os.ReadFile(p); err != nil {
				return err
			}
		}
		return d.set(Create, entry{parent, e.Name(), n})
	})
	d.saveEntries()
	return err
}

// Export copies the files as programs see them to a directory of the machine, which it creates.
func (d *Disk) Export(to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return export(d.nodes[Root], to)
}

func export(n *node, to string) error {
	if !n.isDir() {
		return os.WriteFile(to, n.content(), 0o600)
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for name, child := range n.names {
		if err := export(child, filepath.Join(to, name)); err != nil {
			return err
		}
	}
	return nil
}
