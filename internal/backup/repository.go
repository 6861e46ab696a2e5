package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"filippo.io/age"
	"gocloud.dev/blob"
)

// Repository is where backups lie.
type Repository struct {
	Bucket *blob.Bucket
	// Recipients can decrypt the files that are written. Without any, files are not encrypted.
	Recipients []age.Recipient
	// Identities decrypt the files that are read.
	Identities []age.Identity
	// Dir is the directory of a bucket on this machine, "" for any other. Its files are synced before they count as
	// written, and read directly.
	Dir string
}

// open opens a file to read it once.
func (r *Repository) open(ctx context.Context, name Name) (io.ReadCloser, error) {
	if r.Dir != "" {
		return os.Open(r.path(name))
	}
	return r.Bucket.NewReader(ctx, name.String(), nil)
}

func (r *Repository) exists(ctx context.Context, name Name) (bool, error) {
	if r.Dir == "" {
		return r.Bucket.Exists(ctx, name.String())
	}
	_, err := os.Stat(r.path(name))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Chain is a full backup with the changes since.
type Chain struct {
	Name string
	// Files are the full backup and the files of changes, in the order of [Name.Revision].
	Files []File
}

// File is one file, and its size in bytes.
type File struct {
	Name

	Size int64
}

// Full returns the full backup.
func (c *Chain) Full() File { return c.Files[0] }

// clusterID returns the id of the cluster whose store it is, 0 if that is not known.
func (c *Chain) clusterID() uint64 {
	id, _ := strconv.ParseUint(c.Name[len(chainForm)+1:], 16, 64) // ParseName has accepted it
	return id
}

// Path returns the files that lead from the full backup to the newest revision without a gap, and how many others there
// are: copies of the same changes, or changes behind a gap.
func (c *Chain) Path() (path []File, others int) {
	at := int64(-1)
	for _, f := range c.Files {
		switch {
		case f.Full && at < 0, !f.Full && f.After <= at && f.Revision >= at:
			path, at = append(path, f), f.Revision
		default:
			others++
		}
	}
	return path, others
}

// Last returns the newest file that can be reached.
func (c *Chain) Last() File {
	path, _ := c.Path()
	return path[len(path)-1]
}

// Missing returns the revisions whose changes are in no file, although later ones are; zeros if there are none. What is
// saved after them cannot be restored.
func (c *Chain) Missing() (from, to int64) {
	last := c.Last()
	for _, f := range c.Files {
		if f.Revision > last.Revision {
			return last.Revision + 1, f.After
		}
	}
	return 0, 0
}

// saved returns the newest file, whether it can be reached or not.
func (c *Chain) saved() File { return c.Files[len(c.Files)-1] }

// Chains lists what the bucket holds, the oldest first. Files without a full backup before them are not listed.
func (r *Repository) Chains(ctx context.Context) ([]Chain, error) {
	all, _, err := r.list(ctx)
	return all, err
}

// Headless returns the names of the chains that lack their full backup, so that nothing can be restored from them.
func (r *Repository) Headless(ctx context.Context) ([]string, error) {
	_, headless, err := r.list(ctx)
	return headless, err
}

func (r *Repository) list(ctx context.Context) (all []Chain, headless []string, err error) {
	byName := map[string]*Chain{}
	for it := r.Bucket.List(nil); ; {
		o, err := it.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, fmt.Errorf("list the backups: %w", err)
		}
		n, err := ParseName(o.Key)
		if o.IsDir || err != nil {
			continue
		}
		c := byName[n.Chain]
		if c == nil {
			c = &Chain{Name: n.Chain}
			byName[n.Chain] = c
		}
		c.Files = append(c.Files, File{n, o.Size})
	}
	for _, c := range byName {
		slices.SortFunc(c.Files, func(a, b File) int { return compare(a.Name, b.Name) })
		if c.Full().Full {
			all = append(all, *c)
		} else {
			headless = append(headless, c.Name)
		}
	}
	slices.Sort(headless)
	slices.SortFunc(all, func(a, b Chain) int {
		if by := a.Full().At.Compare(b.Full().At); by != 0 {
			return by
		}
		return strings.Compare(a.Name, b.Name)
	})
	return all, headless, nil
}

// remove deletes a chain: the full backup last, so that what is left at any moment is a chain, or nothing.
func (r *Repository) remove(ctx context.Context, c *Chain) error {
	for _, f := range slices.Backward(c.Files) {
		if err := r.Bucket.Delete(ctx, f.String()); err != nil {
			return fmt.Errorf("delete %s: %w", f.Name, err)
		}
	}
	return nil
}
