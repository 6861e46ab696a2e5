package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/examples/edge/credentials"
)

// run starts each component when those that it needs are ready. It stops them in the opposite order, the store last,
// when ctx ends, or one of them does, which is an error.
func (s *settings) run(ctx context.Context, log *slog.Logger) (err error) {
	began := time.Now()
	signals := ctx
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	defer func() {
		if signals.Err() != nil && errors.Is(err, context.Canceled) {
			err = nil // a start that was asked to end
		}
	}()

	if s.etcdServers == "" {
		store, err := s.openStore(ctx)
		if err != nil {
			return fmt.Errorf("start sqlstore: %w", err)
		}
		defer func() {
			if closed := store.Close(); closed != nil {
				log.Error("sqlstore did not stop as it should", "error", closed)
			}
		}()
		go func() {
			<-store.Done()
			fail(fmt.Errorf("sqlstore: %w", store.Err()))
		}()
		s.etcdServers = store.Endpoints()[0]
	}
	files, err := credentials.Ensure(s.dataDir, s.listen, serviceIP, time.Now())
	if err != nil {
		return fmt.Errorf("certificates in %s: %w", s.dataDir, err)
	}

	begin := func(name string, run func(context.Context) error) (stop func()) {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := run(ctx); ctx.Err() == nil {
				fail(fmt.Errorf("%s ended: %w", name, errors.Join(err, errEnded)))
			}
		}()
		return func() {
			cancel()
			<-done
			log.Info("stopped " + name)
		}
	}
	defer begin("kube-apiserver", s.apiServer(files))()
	if err := awaitReady(ctx, files.Admin); err != nil {
		return err
	}
	defer begin("kube-controller-manager", controllerManager(files))()
	defer begin("kube-scheduler", scheduler(files))()
	log.Info("ready", "after", time.Since(began).Round(time.Millisecond), "kubeconfig", files.Admin)
	<-ctx.Done()
	if signals.Err() != nil {
		return nil
	}
	return context.Cause(ctx)
}

// errEnded is the reason of a component that ends without one.
var errEnded = errors.New("the other components stop, too")

// openStore serves the database on a socket that only this user can open.
func (s *settings) openStore(ctx context.Context) (*sqlstore.Server, error) {
	socket := filepath.Join(s.dataDir, "sqlstore.sock")
	if len(socket) > 100 { // Linux takes 107 bytes, other systems 103
		return nil, fmt.Errorf("the path of the socket %s is too long: choose a shorter --data-dir", socket)
	}
	// It is ready before the whole is, and would say so.
	warnings := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return sqlstore.Start(ctx, sqlstore.Config{
		DataDir: s.dataDir, Datastore: s.datastore,
		ListenClientURLs: []string{"unix://" + socket},
		Logger:           warnings.With("component", "sqlstore"),
	})
}

// awaitReady waits until kube-apiserver has what a client needs: its own objects, such as the roles, among it.
func awaitReady(ctx context.Context, kubeconfig string) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	err = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		return client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil, nil
	})
	if err != nil {
		return context.Cause(ctx)
	}
	return nil
}
