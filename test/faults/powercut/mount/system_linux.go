package mount

import (
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/sqlstore/sqlstore/test/faults/powercut/disk"
)

// cached is how long the kernel may remember entries and attributes, whose only user it is.
const cached = time.Hour

// system answers the kernel's requests.
type system struct {
	fuse.RawFileSystem
	d *disk.Disk

	mu    sync.Mutex
	next  uint64
	lists map[uint64][]string // of open directories, by their handle
}

func newSystem(d *disk.Disk) *system {
	return &system{RawFileSystem: fuse.NewDefaultRawFileSystem(), d: d, lists: map[uint64][]string{}}
}

func (s *system) String() string { return "powercut" }

// status converts an error of the disk.
func status(err error) fuse.Status {
	if no, ok := errors.AsType[syscall.Errno](err); ok {
		return fuse.Status(no)
	}
	return fuse.OK
}

func fill(out *fuse.Attr, a disk.Attr) {
	const blockSize = 4096
	*out = fuse.Attr{
		Ino: a.ID, Size: uint64(a.Size), Blocks: uint64(a.Size+disk.Sector-1) / disk.Sector, Mode: a.Mode,
		Nlink: uint32(a.Links), Owner: fuse.Owner{Uid: a.UID, Gid: a.GID}, Blksize: blockSize,
	}
	out.SetTimes(&a.Modified, &a.Modified, &a.Modified)
}

func fillEntry(out *fuse.EntryOut, a disk.Attr, err error) fuse.Status {
	if err == nil {
		out.NodeId = a.ID
		fill(&out.Attr, a)
		out.SetEntryTimeout(cached)
		out.SetAttrTimeout(cached)
	}
	return status(err)
}

func (s *system) Lookup(_ <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	a, err := s.d.Lookup(in.NodeId, name)
	return fillEntry(out, a, err)
}

func (s *system) Forget(id, references uint64) { s.d.Forget(id, references) }

func (s *system) attr(id uint64, out *fuse.AttrOut) fuse.Status {
	a, err := s.d.Stat(id)
	if err == nil {
		fill(&out.Attr, a)
		out.SetTimeout(cached)
	}
	return status(err)
}

func (s *system) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	return s.attr(in.NodeId, out)
}

func (s *system) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	if size, ok := in.GetSize(); ok {
		if err := s.d.Resize(in.NodeId, int64(size)); err != nil {
			return status(err)
		}
	}
	var mode, uid, gid *uint32
	if v, ok := in.GetMode(); ok {
		mode = &v
	}
	if v, ok := in.GetUID(); ok {
		uid = &v
	}
	if v, ok := in.GetGID(); ok {
		gid = &v
	}
	var modified *time.Time
	if v, ok := in.GetMTime(); ok {
		modified = &v
	}
	if err := s.d.Change(in.NodeId, mode, uid, gid, modified); err != nil {
		return status(err)
	}
	return s.attr(in.NodeId, out)
}

func (s *system) Mkdir(_ <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	a, err := s.d.Mkdir(in.NodeId, name, in.Mode, in.Uid, in.Gid)
	return fillEntry(out, a, err)
}

func (s *system) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	a, err := s.d.Create(in.NodeId, name, in.Mode, in.Uid, in.Gid)
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE
	return fillEntry(&out.EntryOut, a, err)
}

func (s *system) Link(_ <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	a, err := s.d.Link(in.Oldnodeid, in.NodeId, name)
	return fillEntry(out, a, err)
}

func (s *system) Unlink(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return status(s.d.Unlink(in.NodeId, name))
}

func (s *system) Rmdir(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return status(s.d.Rmdir(in.NodeId, name))
}

func (s *system) Rename(_ <-chan struct{}, in *fuse.RenameIn, from, to string) fuse.Status {
	const noReplace = 1 // RENAME_NOREPLACE
	if in.Flags&^noReplace != 0 {
		return fuse.EINVAL
	}
	return status(s.d.Rename(in.NodeId, from, in.Newdir, to, in.Flags == noReplace))
}

func (s *system) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	_, err := s.d.Stat(in.NodeId)
	out.OpenFlags = fuse.FOPEN_KEEP_CACHE
	return status(err)
}

func (s *system) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	n, err := s.d.Read(in.NodeId, int64(in.Offset), buf)
	return fuse.ReadResultData(buf[:n]), status(err)
}

func (s *system) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	if err := s.d.Write(in.NodeId, int64(in.Offset), data); err != nil {
		return 0, status(err)
	}
	return uint32(len(data)), fuse.OK
}

func (s *system) Fallocate(_ <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	const keepSize = 1 // FALLOC_FL_KEEP_SIZE
	a, err := s.d.Stat(in.NodeId)
	switch end := int64(in.Offset + in.Length); {
	case err != nil:
		return status(err)
	case in.Mode&^keepSize != 0:
		return fuse.ENOTSUP
	case in.Mode == keepSize || end <= a.Size:
		return fuse.OK // there is always room
	default:
		return status(s.d.Resize(in.NodeId, end))
	}
}

func (s *system) Flush(_ <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	_, err := s.d.Stat(in.NodeId)
	return status(err)
}

func (s *system) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return status(s.d.Sync(in.NodeId))
}

func (s *system) FsyncDir(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return status(s.d.Sync(in.NodeId))
}

// OpenDir takes the names, so that they stay in place while entries are removed.
func (s *system) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	names, err := s.d.List(in.NodeId)
	if err != nil {
		return status(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	s.lists[s.next] = append([]string{".", ".."}, names...)
	out.Fh = s.next
	return fuse.OK
}

func (s *system) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	s.mu.Lock()
	names := s.lists[in.Fh]
	s.mu.Unlock()
	for at := in.Offset; at < uint64(len(names)); at++ {
		if !out.AddDirEntry(fuse.DirEntry{Name: names[at], Off: at + 1}) {
			break
		}
	}
	return fuse.OK
}

func (s *system) ReleaseDir(in *fuse.ReleaseIn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.lists, in.Fh)
}

func (s *system) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	const blockSize, files = 4096, 1 << 20
	blocks := uint64(s.d.Free / blockSize)
	*out = fuse.StatfsOut{
		Blocks: blocks, Bfree: blocks, Bavail: blocks, Files: files, Ffree: files, Bsize: blockSize,
		Frsize: blockSize, NameLen: 255,
	}
	return fuse.OK
}
