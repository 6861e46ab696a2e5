package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"github.com/sqlstore/sqlstore"
)

// errLogged is returned if the log already contains the error.
var errLogged = errors.New("the server failed")

func serveCommand() *cobra.Command {
	s := &settings{}
	cmd := &cobra.Command{Use: "serve", Short: "Serve the etcd API (the default command)", Args: noArgs}
	s.register(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		err := applySettings(cmd.Flags(), os.LookupEnv)
		if err == nil {
			err = s.finish()
		}
		level := &slog.LevelVar{}
		log := s.logger(level)
		if err == nil {
			err = serve(cmd, s, log, level)
		}
		if err != nil {
			log.Error("the server failed", "error", err)
			return errLogged
		}
		return nil
	}
	return cmd
}

func serve(cmd *cobra.Command, s *settings, log *slog.Logger, level *slog.LevelVar) error {
	policy := heapOnSQLite
	if s.config.OnPostgres() {
		policy = heapOnPostgres
	}
	tuneHeap(policy)
	s.config.Logger = log
	quiet(log)
	stop := make(chan os.Signal, 2)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	lost := terminalLost()
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	database, err := s.config.Database()
	if err != nil {
		return err
	}
	log.Info("starting", "version", sqlstore.Version, "etcd", sqlstore.EtcdVersion, "datastore", database)
	for _, name := range unknownVariables(cmd.Flags(), os.Environ()) {
		log.Warn("unrecognized environment variable", "environment-variable", name)
	}
	if s.config.UnsafeNoFsync {
		log.Warn("--unsafe-no-fsync: acknowledged writes may be lost, and the database damaged, when its " +
			"machine crashes")
	}
	server, err := start(s.config, stop)
	if errors.Is(err, context.Canceled) {
		log.Info("stopping before the start has finished", "signal", (<-stop).String())
		return nil
	}
	if err != nil {
		return err
	}
	notify(log, daemon.SdNotifyReady)
	defer watchdog(log, server)()
	log.Info("ready", "endpoints", server.Endpoints())
	r := &reloader{flags: cmd.Flags(), level: level, log: log, server: server}
	for {
		select {
		case <-hangup:
			if lost() {
				log.Info("stopping", "signal", "hangup", "reason", "the terminal was closed")
				notify(log, daemon.SdNotifyStopping)
				return server.Close()
			}
			notify(log, reloading())
			r.reload()
			notify(log, daemon.SdNotifyReady)
		case sig := <-stop:
			log.Info("stopping", "signal", sig.String())
			notify(log, daemon.SdNotifyStopping)
			return server.Close()
		case <-server.Done():
			err := fmt.Errorf("the database is no longer writable, restart to recover: %w", server.Err())
			return errors.Join(err, server.Close())
		}
	}
}

// start starts the server. It puts back a signal that arrives during the start, and stops waiting for an unavailable
// database.
func start(cfg sqlstore.Config, stop chan os.Signal) (*sqlstore.Server, error) {
	ctx, cancel := context.WithCancel(context.Background())
	var listening sync.WaitGroup
	listening.Go(func() {
		select {
		case sig := <-stop:
			cancel()
			stop <- sig
		case <-ctx.Done():
		}
	})
	server, err := sqlstore.Start(ctx, cfg)
	cancel()
	listening.Wait()
	return server, err
}

func notify(log *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("cannot notify systemd", "state", state, "error", err)
	}
}

// watchdog pings systemd's watchdog, if there is one, while the process is alive.
func watchdog(log *slog.Logger, server *sqlstore.Server) (stop func()) {
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil || every == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		tick := time.NewTicker(every / 2)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if server.Alive(ctx) == nil {
					notify(log, daemon.SdNotifyWatchdog)
				}
			}
		}
	}()
	return cancel
}
