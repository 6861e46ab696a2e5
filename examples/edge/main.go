// Command edge is a Kubernetes control plane in one process, with its files in one directory: kube-apiserver,
// kube-controller-manager, kube-scheduler, and sqlstore as the store of kube-apiserver, which it reaches through a unix
// socket. The first start makes the certificates, and a kubeconfig for kubectl.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// settings are what the flags say.
type settings struct {
	dataDir     string
	listen      string
	datastore   string
	etcdServers string
}

func main() {
	var s settings
	// a set of its own: Kubernetes' packages add flags to the default one
	flags := pflag.NewFlagSet("edge", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.StringVar(&s.dataDir, "data-dir", "default.edge", "directory of all files; made at the first start")
	flags.StringVar(&s.listen, "listen", "127.0.0.1:6443", "host:port where kube-apiserver listens")
	flags.StringVar(&s.datastore, "datastore", "", "postgres://user@host:5432/database instead of SQLite")
	flags.StringVar(&s.etcdServers, "etcd-servers", "", "URLs of another store to use, such as an etcd, without TLS")
	if err := flags.Parse(os.Args[1:]); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return
		}
		exit(2, err)
	}

	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	klog.SetSlogLogger(log)
	rest.SetDefaultWarningHandler(rest.NoWarnings{}) // Kubernetes' own use of deprecated APIs is not the user's concern
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	err := s.check()
	if err == nil {
		err = s.run(ctx, log)
	}
	if err != nil {
		exit(1, err)
	}
	log.Info("stopped")
}

func exit(status int, err error) {
	fmt.Fprintln(os.Stderr, "edge:", err)
	os.Exit(status)
}

// check makes the directory, and refuses flags that cannot be used.
func (s *settings) check() (err error) {
	if _, _, err := net.SplitHostPort(s.listen); err != nil {
		return fmt.Errorf("--listen must be host:port: %w", err)
	}
	if s.datastore != "" && s.etcdServers != "" {
		return errors.New("--datastore and --etcd-servers are two stores: choose one")
	}
	if s.dataDir, err = filepath.Abs(s.dataDir); err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	return os.MkdirAll(s.dataDir, 0o700)
}
