package world

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sqlstore/sqlstore/backend"
	"github.com/sqlstore/sqlstore/internal/store"
	"github.com/sqlstore/sqlstore/test/support/history"
)

const (
	plainKeys = 16
	groups    = 3
	// opTimeout is how long a client waits for an answer, as kube-apiserver does.
	opTimeout = 10 * time.Second
)

// client sends one request after another to its replica.
type client struct {
	*rand.Rand
	w       *World
	number  int
	replica *replica
}

// errDown is the error of a request to a replica that does not run. It was not sent.
var errDown = fmt.Errorf("%w: the replica is down", backend.ErrUnavailable)

// serve sends requests until ctx ends. The last one still gets its answer.
func (c *client) serve(ctx context.Context) {
	for ctx.Err() == nil {
		c.step()
		time.Sleep(upTo(c.Rand, 250*time.Millisecond))
	}
}

func (c *client) key() string { return fmt.Sprintf("k/%02d", c.IntN(plainKeys)) }

func (c *client) step() {
	switch n := c.IntN(100); {
	case n < 25:
		_ = c.put(0, c.key())
	case n < 35:
		g := c.IntN(groups)
		_ = c.put(0, fmt.Sprintf("t/%d/a", g), fmt.Sprintf("t/%d/b", g))
	case n < 45:
		c.delete(c.key())
	case n < 65:
		c.swap(c.key())
	case n < 93:
		_, _ = c.get(c.key())
	default:
		c.list("k/")
	}
}

// send runs one request and records how it ends.
func (c *client) send(o history.Op, f func(context.Context, api, *history.Op) error) (*history.Op, error) {
	o.Client, o.Replica = c.number, c.replica.name
	op := c.w.journal.Begin(o)
	err := errDown
	var got history.Op
	if a := c.replica.api(); a != nil {
		ctx, cancel := context.WithTimeout(context.Background(), opTimeout)
		got = *op
		err = f(ctx, a, &got)
		cancel()
	}
	c.w.trace.note("client", uint64(c.number), uint64(got.Revision))
	if notApplied(err) && o.Kind.Writes() {
		c.w.denied(op.Value, err)
	}
	c.w.journal.End(op, func(o *history.Op) {
		if err != nil {
			o.Err = err.Error()
			return
		}
		o.Outcome, o.Revision, o.Found = got.Outcome, got.Revision, got.Found
	})
	return op, err
}

// notApplied reports whether the engine says that a request was certainly not applied.
func notApplied(err error) bool {
	return errors.Is(err, backend.ErrUnavailable) && !errors.Is(err, backend.ErrUnknownOutcome)
}

func (c *client) put(lease int64, keys ...string) error {
	return c.write(history.Op{Kind: history.Put, Keys: keys, Lease: lease}, "")
}

// write puts the keys of an operation, with padding at the end of the value, if its compare holds.
func (c *client) write(o history.Op, padding string) error {
	_, err := c.send(o, func(ctx context.Context, a api, o *history.Op) error {
		t := &store.Txn{}
		if o.Kind == history.Swap {
			t.Compare = []store.Compare{{Key: []byte(o.Keys[0]), Target: store.CompareMod, Number: o.Expect}}
		}
		for _, k := range o.Keys {
			t.Success = append(t.Success, store.Op{Put: &store.PutRequest{
				Key: []byte(k), Value: []byte(o.Value + padding), Lease: o.Lease,
			}})
		}
		err := a.txn(ctx, t, o)
		if errors.Is(err, store.ErrLeaseNotFound) {
			o.Outcome = history.Refused
			return nil
		}
		return err
	})
	return err
}

func (c *client) delete(key string) {
	_, _ = c.send(history.Op{Kind: history.Delete, Keys: []string{key}},
		func(ctx context.Context, a api, o *history.Op) error { return a.delete(ctx, key, o) })
}

// swap reads a key and writes it unless another client was faster, as kube-apiserver does.
func (c *client) swap(key string) {
	read, err := c.get(key)
	if err != nil {
		return
	}
	o := history.Op{Kind: history.Swap, Keys: []string{key}}
	if len(read.Found) > 0 {
		o.Expect = read.Found[0].Mod
	}
	_ = c.write(o, "")
}

func (c *client) get(key string) (*history.Op, error) {
	return c.read(history.Op{Kind: history.Get, Keys: []string{key}}, &store.RangeRequest{Key: []byte(key)})
}

func (c *client) list(prefix string) {
	_, _ = c.read(history.Op{Kind: history.List, Keys: []string{prefix}},
		&store.RangeRequest{Key: []byte(prefix), End: store.PrefixEnd([]byte(prefix))})
}

func (c *client) read(o history.Op, req *store.RangeRequest) (*history.Op, error) {
	return c.send(o, func(ctx context.Context, a api, o *history.Op) error { return a.read(ctx, req, o) })
}

// trimmed is a value without the padding of large ones.
func trimmed(value []byte) string {
	own, _, _ := bytes.Cut(value, []byte("."))
	return string(own)
}
