package restapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/sqlstore/sqlstore/internal/store"
)

const (
	// mostLeaseKeys and mostLeaseBytes bound the keys of a lease in one answer.
	mostLeaseKeys  = 500
	mostLeaseBytes = 256 << 10
)

var leaseKeys = boolean("keys", "Whether the answer has the keys, all of which the caller must be allowed to read. "+
	"True if it is not given.", func(o *options, b bool) { o.keys = &b })

// leases answers with the leases in order of their ids.
func (c *call) leases() error {
	if err := c.refuseVersions(); err != nil {
		return err
	}
	ctx, cancel := c.bounded(c.r.Context())
	defer cancel()
	after, err := c.opts.lastLease("LeaseList")
	if err != nil {
		return err
	}
	done, err := c.leaseTurn(ctx)
	if err != nil {
		return err
	}
	defer done()
	all, err := c.s.engine.Leases(ctx)
	if err != nil {
		return because(ctx, err)
	}
	c.revision = c.s.engine.Revision()
	all = slices.Clone(all) // others have it, too
	slices.SortFunc(all, func(a, b store.Lease) int { return compareIDs(a, b.ID) })
	p := part(all, after, compareIDs, c.opts.limit, func(*store.Lease) int { return 0 })
	counts, err := c.s.engine.CountLeaseKeys(ctx, p.items)
	if err != nil {
		return because(ctx, err)
	}
	return c.answerList("LeaseList", len(p.items), func(b []byte, i int) []byte {
		b = append(appendLease(append(b, '{'), &p.items[i]), `,"keys":`...)
		return append(strconv.AppendInt(b, int64(counts[i]), 10), '}')
	}, p.rest, func() string { return leaseID(p.items[len(p.items)-1].ID) })
}

// leaseTurn waits until no other answer about leases is made: one costs as much as there are leases, or as a lease has
// keys, and writers come first.
func (c *call) leaseTurn(ctx context.Context) (done func(), err error) {
	select {
	case c.s.leasing <- struct{}{}:
		return func() { <-c.s.leasing }, nil
	case <-ctx.Done():
		return nil, because(ctx, ctx.Err())
	}
}

func compareIDs(l store.Lease, id int64) int { return cmp.Compare(l.ID, id) }

// lastLease returns the last lease of the previous chunk, nil for the first chunk. Errors: 400.
func (o *options) lastLease(kind string) (*int64, error) {
	name, err := o.last(kind)
	if err != nil || name == nil {
		return nil, err
	}
	id, err := strconv.ParseInt(*name, 16, 64)
	if err != nil {
		return nil, errToken
	}
	return &id, nil
}

// lease answers with a lease and its keys.
func (c *call) lease() error {
	if err := c.refuseVersions(); err != nil {
		return err
	}
	id, err := strconv.ParseInt(c.to.name, 16, 64)
	if err != nil {
		return badRequest("%q is no id of a lease: write it in hexadecimal, as etcdctl prints it", c.to.name)
	}
	ctx, cancel := c.bounded(c.r.Context())
	defer cancel()
	withKeys := c.opts.keys == nil || *c.opts.keys
	if withKeys {
		done, err := c.leaseTurn(ctx)
		if err != nil {
			return err
		}
		defer done()
	}
	lease, keys, err := c.s.engine.LeaseTimeToLive(ctx, id, withKeys)
	if errors.Is(err, store.ErrLeaseNotFound) {
		return absent("lease", leaseID(id))
	}
	if err != nil {
		return because(ctx, err)
	}
	c.revision = lease.Revision
	b := getBuffer()
	defer putBuffer(b)
	*b = append(*b, `{"kind":"Lease","apiVersion":"sqlstore/v1","metadata":{"resourceVersion":"`...)
	*b = append(strconv.AppendInt(*b, lease.Revision, 10), `"},`...)
	*b = appendLease(*b, lease)
	if withKeys {
		*b = appendLeaseKeys(*b, keys)
	}
	*b = append(*b, "}\n"...)
	return c.answer(http.StatusOK, *b)
}

// appendLeaseKeys appends the number of a lease's keys, and the first ones.
func appendLeaseKeys(b []byte, keys [][]byte) []byte {
	b = append(strconv.AppendInt(append(b, `,"keys":`...), int64(len(keys)), 10), `,"attachedKeys":[`...)
	size := 0
	for i, key := range keys[:min(len(keys), mostLeaseKeys)] {
		if size += len(key); i > 0 && size > mostLeaseBytes {
			break
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendBytes(append(b, '{'), "key", key), '}')
	}
	return append(b, ']')
}

// appendLease appends the members of a lease, without its keys.
func appendLease(b []byte, l *store.Lease) []byte {
	b = appendLeaseID(append(b, `"id":"`...), l.ID)
	b = append(b, `","grantedTTL":`...)
	b = strconv.AppendInt(b, int64(l.Granted/time.Second), 10)
	b = append(b, `,"remainingTTL":`...)
	return strconv.AppendInt(b, int64(l.Remaining/time.Second), 10)
}

// leaseDigits is how long etcdctl prints the id of a lease at least.
const leaseDigits = 16

// appendLeaseID appends the id of a lease as etcdctl prints it.
func appendLeaseID(b []byte, id int64) []byte {
	n, width := uint64(id), leaseDigits
	if id < 0 {
		b, n, width = append(b, '-'), -n, width-1
	}
	for digits := (bits.Len64(n) + 3) / 4; digits < width; digits++ {
		b = append(b, '0')
	}
	return strconv.AppendUint(b, n, 16)
}

func leaseID(id int64) string { return string(appendLeaseID(nil, id)) }

func absent(what, name string) *status {
	st := failure(http.StatusNotFound, reasonNotFound, fmt.Sprintf("%s %q not found", what, name))
	return st.named([]byte(name))
}
