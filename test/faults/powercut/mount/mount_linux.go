package mount

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/sqlstore/sqlstore/test/faults/powercut/disk"
)

// Mount is a mounted disk.
type Mount struct {
	server *fuse.Server
	served chan struct{} // closed when the kernel's last request has been answered
}

// At mounts a disk on a directory. Other users can access it if root mounts it.
func At(dir string, d *disk.Disk) (*Mount, error) {
	if f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err != nil {
		return nil, fmt.Errorf("this needs FUSE (modprobe fuse; for containers: --device /dev/fuse --cap-add "+
			"SYS_ADMIN): %w", err)
	} else if err := f.Close(); err != nil {
		return nil, err
	}
	server, err := fuse.NewServer(newSystem(d), dir, &fuse.MountOptions{
		AllowOther: os.Getuid() == 0, DirectMount: true, Options: []string{"default_permissions"},
		Name: "powercut", FsName: "powercut", MaxWrite: 1 << 20, DisableXAttrs: true, DisableReadDirPlus: true,
		ExplicitDataCacheControl: true,
		Logger:                   log.New(io.Discard, "", 0), // it reports requests that a kill interrupts
	})
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", dir, err)
	}
	m := &Mount{server, make(chan struct{})}
	go func() {
		defer close(m.served)
		server.Serve()
	}()
	if err := server.WaitMount(); err != nil {
		return nil, errors.Join(fmt.Errorf("mount %s: %w", dir, err), m.Close())
	}
	return m, nil
}

// Close unmounts the disk, which no program may use any more.
func (m *Mount) Close() error {
	if err := m.server.Unmount(); err != nil {
		return fmt.Errorf("unmount: %w", err)
	}
	<-m.served
	return nil
}
