package storage

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/etcd3"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value"
)

var errSynthetic = errors.New("synthetic error")

// transformer is a store's transformer that tests replace while the store runs.
type transformer struct {
	mu      sync.RWMutex
	current value.Transformer
}

// newPrefixer returns the transformer that stores start with.
func newPrefixer() *storagetesting.PrefixTransformer {
	return storagetesting.NewPrefixTransformer([]byte(valuePrefix), false)
}

func newTransformer(t value.Transformer) *transformer { return &transformer{current: t} }

// get returns the current transformer. It holds no lock while the transformer works, because some of the tests'
// transformers write to the store.
func (t *transformer) get() value.Transformer {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.current
}

// set replaces the transformer and returns a function that restores the previous one.
func (t *transformer) set(next value.Transformer) func() {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.current
	t.current = next
	return func() { t.set(before) }
}

func (t *transformer) TransformFromStorage(ctx context.Context, data []byte, dataCtx value.Context) ([]byte,
	bool, error,
) {
	return t.get().TransformFromStorage(ctx, data, dataCtx)
}

func (t *transformer) TransformToStorage(ctx context.Context, data []byte, dataCtx value.Context) ([]byte, error) {
	return t.get().TransformToStorage(ctx, data, dataCtx)
}

// UpdatePrefixTransformer replaces the transformer with the result of modify for one like the store's first. That one
// cannot be copied: a watch cache is using it, and it counts calls.
func (t *transformer) UpdatePrefixTransformer(modify storagetesting.PrefixTransformerModifier) func() {
	return t.set(modify(newPrefixer()))
}

// UpdateTransformer replaces the transformer with the result of modify.
func (t *transformer) UpdateTransformer(modify storagetesting.TransformerModifier) func() {
	return t.set(modify(t.get()))
}

// setFailing makes every read fail, or work again.
func (t *transformer) setFailing(fail bool) {
	inner := t.get()
	if f, ok := inner.(failingTransformer); ok {
		inner = f.Transformer
	}
	if fail {
		inner = failingTransformer{inner}
	}
	t.set(inner)
}

type failingTransformer struct{ value.Transformer }

func (failingTransformer) TransformFromStorage(context.Context, []byte, value.Context) ([]byte, bool, error) {
	return nil, false, errSynthetic
}

// errCorrupt returns the error by which the etcd3 store recognises an object that cannot be transformed. Its type is
// private; the function that makes it is not.
func errCorrupt() error {
	_, _, err := etcd3.WithCorruptObjErrorHandlingTransformer(failingTransformer{}).TransformFromStorage(
		context.Background(), nil, nil)
	return err
}

// failingCodec is a codec whose Decode fails on request.
type failingCodec struct {
	runtime.Codec
	mu   sync.Mutex
	fail bool
}

func (c *failingCodec) setFailing(fail bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = fail
}

func (c *failingCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object,
	*schema.GroupVersionKind, error,
) {
	c.mu.Lock()
	fail := c.fail
	c.mu.Unlock()
	if fail {
		return nil, nil, errSynthetic
	}
	return c.Codec.Decode(data, defaults, into)
}
