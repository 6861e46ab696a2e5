package etcdfile

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-semver/semver"
	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/authpb"
	"go.etcd.io/etcd/server/v3/lease/leasepb"
	"google.golang.org/protobuf/proto"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/snapshot"
)

// readContents reads everything but the rows.
func (f *File) readContents(tx *bbolt.Tx) error {
	if err := f.readMeta(tx); err != nil {
		return err
	}
	if err := f.readLeases(tx); err != nil {
		return err
	}
	return f.readAuth(tx)
}

func (f *File) readMeta(tx *bbolt.Tx) error {
	last, err := lastRevision(tx)
	if err != nil {
		return err
	}
	c := &f.contents
	c.Bytes = tx.Size()
	if meta := tx.Bucket([]byte("meta")); meta != nil {
		if err := known(string(meta.Get([]byte("storageVersion")))); err != nil {
			return err
		}
		// A compaction counts from the moment when it is scheduled.
		if at := meta.Get([]byte("scheduledCompactRev")); len(at) >= idSize {
			p, _, err := parseID(at[:idSize])
			if err != nil {
				return err
			}
			c.Compacted = p.revision
		}
	}
	c.Revision = max(last, c.Compacted, 1)
	return nil
}

// known refuses the files of versions that did not exist yet. Files up to 3.5 do not name their version.
func known(version string) error {
	if version == "" {
		return nil
	}
	v, err := semver.NewVersion(version)
	if err != nil {
		return fmt.Errorf("%w: its version is %q", backend.ErrDamagedSource, version)
	}
	if newest := semver.New(snapshot.StorageVersion); newest.LessThan(*v) {
		return fmt.Errorf("%w: it is a file of etcd %s, and this version reads files up to %s: upgrade sqlstore",
			backend.ErrSource, v, newest)
	}
	return nil
}

func (f *File) readLeases(tx *bbolt.Tx) error {
	return eachOf(tx, "lease", func(_, value []byte) error {
		var l leasepb.Lease
		if err := proto.Unmarshal(value, &l); err != nil {
			return fmt.Errorf("%w: a lease: %w", backend.ErrDamagedSource, err)
		}
		if l.RemainingTTL > 0 {
			f.remaining[l.ID] = time.Duration(l.RemainingTTL) * time.Second
		}
		f.contents.Leases = append(f.contents.Leases, backend.Lease{ID: l.ID, TTL: time.Duration(l.TTL) * time.Second})
		return nil
	})
}

func (f *File) readAuth(tx *bbolt.Tx) error {
	a := &backend.Auth{Revision: 1}
	if bucket := tx.Bucket([]byte("auth")); bucket != nil {
		enabled := bucket.Get([]byte("authEnabled"))
		a.Enabled = len(enabled) == 1 && enabled[0] == 1
		if n := bucket.Get([]byte("authRevision")); len(n) == 8 {
			a.Revision = max(binary.BigEndian.Uint64(n), 1)
		}
	}
	err := eachOf(tx, "authUsers", func(_, value []byte) error {
		var u authpb.User
		if err := proto.Unmarshal(value, &u); err != nil {
			return fmt.Errorf("%w: a user: %w", backend.ErrDamagedSource, err)
		}
		slices.Sort(u.Roles)
		a.Users = append(a.Users, backend.AuthUser{
			Name: string(u.Name), Hash: u.Password, NoPassword: u.Options.GetNoPassword(), Roles: u.Roles,
			TokensFrom: a.Revision,
		})
		return nil
	})
	if err != nil {
		return err
	}
	err = eachOf(tx, "authRoles", func(_, value []byte) error {
		var r authpb.Role
		if err := proto.Unmarshal(value, &r); err != nil {
			return fmt.Errorf("%w: a role: %w", backend.ErrDamagedSource, err)
		}
		role := backend.AuthRole{Name: string(r.Name)}
		for _, p := range r.KeyPermission {
			role.Permissions = append(role.Permissions, backend.AuthPermission{
				Kind: backend.AuthKind(p.PermType), Key: p.Key, End: p.RangeEnd,
			})
		}
		a.Roles = append(a.Roles, role)
		return nil
	})
	slices.SortFunc(a.Users, func(x, y backend.AuthUser) int { return strings.Compare(x.Name, y.Name) })
	slices.SortFunc(a.Roles, func(x, y backend.AuthRole) int { return strings.Compare(x.Name, y.Name) })
	if a.Enabled || a.Revision > 1 || len(a.Users)+len(a.Roles) > 0 {
		f.contents.Auth = a
	}
	return err
}

// eachOf visits the entries of a bucket, of which there are none if it does not exist.
func eachOf(tx *bbolt.Tx, name string, visit func(key, value []byte) error) error {
	bucket := tx.Bucket([]byte(name))
	if bucket == nil {
		return nil
	}
	return bucket.ForEach(visit)
}
