package load

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// fenceName is the name of the object that ends every watch.
const fenceName = "fence"

// Config sets how much to write.
type Config struct {
	Kinds      []Kind
	Namespaces []string
	Objects    int
	// Writers work at the same time; each object belongs to one of them.
	Writers int
	// Life is what happens to each object; nil is FullLife.
	Life []Stage
}

// Stage is something that happens to every of-th object.
type Stage struct {
	of  int
	act func(*life, context.Context) error
}

// The lives of a load's objects. In each, some are deleted and some of those are created again.
var (
	// FullLife has every object replaced, patched and applied.
	FullLife = []Stage{
		{1, (*life).create},
		{1, (*life).update},
		{1, (*life).patch},
		{1, (*life).apply},
		{3, (*life).delete},
		{6, (*life).create},
	}
	// Churn has few changes, for loads of many objects.
	Churn = []Stage{
		{1, (*life).create},
		{5, (*life).update},
		{7, (*life).patch},
		{4, (*life).delete},
		{8, (*life).create},
	}
)

// MakeNamespaces creates n namespaces named after the prefix and returns their names.
func MakeNamespaces(ctx context.Context, client kubernetes.Interface, prefix string, n int) ([]string, error) {
	var names []string
	for i := range n {
		name := fmt.Sprintf("%s-%03d", prefix, i)
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// Write gives every object its life. Objects of all kinds and namespaces are mixed. Write returns at the first change
// that fails.
func Write(ctx context.Context, client dynamic.Interface, history *History, cfg Config) error {
	stages := cfg.Life
	if stages == nil {
		stages = FullLife
	}
	group, ctx := errgroup.WithContext(ctx)
	for writer := range cfg.Writers {
		group.Go(func() error {
			var lives []*life
			for i := writer; i < cfg.Objects; i += cfg.Writers {
				kind := cfg.Kinds[i%len(cfg.Kinds)]
				namespace := cfg.Namespaces[i/len(cfg.Kinds)%len(cfg.Namespaces)]
				lives = append(lives, newLife(client, history, kind, namespace, fmt.Sprintf("object-%06d", i)))
			}
			return live(ctx, lives, stages)
		})
	}
	return group.Wait()
}

// live takes all lives of a writer through one stage after another.
func live(ctx context.Context, lives []*life, stages []Stage) error {
	for _, stage := range stages {
		for i := 0; i < len(lives); i += stage.of {
			if err := stage.act(lives[i], ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// Fence creates the object that ends every watch, of each kind in each namespace.
func Fence(ctx context.Context, client dynamic.Interface, history *History, cfg Config) error {
	for _, kind := range cfg.Kinds {
		for _, namespace := range cfg.Namespaces {
			if err := newLife(client, history, kind, namespace, fenceName).create(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}
