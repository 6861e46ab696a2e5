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
	"github.com/spf13/pflag"

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
		if unknown := refuseUnknown(cmd.Flags(), os.Environ()); unknown != nil {
			err = errors.Join(err, unknown)
		}
		if err == nil {
			err = s.finish()
		}
		level := &slog.LevelVar{}
		log := s.logger(level)
		if err == nil {
			err = serve(s, runner{
				flags: cmd.Flags(), level: level, log: log, read: readSettings, as: "serve",
			})
		}
		if err != nil {
			log.Error("the server failed", "error", err)
			return errLogged
		}
		return nil
	}
	return cmd
}

// runner is how the process that serves behaves towards those who started it.
type runner struct {
	flags *pflag.FlagSet
	level *slog.LevelVar
	log   *slog.Logger
	read  func() (*settings, *pflag.FlagSet, error) // reads the settings again
	as    string                                    // the command
}

func serve(s *settings, run runner) (err error) {
	defer func() { err = inUnit(err) }()
	log := run.log
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
	for _, other := range otherCommandLines {
		if names := other.variables(os.Environ()); run.as == "serve" && len(names) > 0 {
			log.Warn(other.name+"'s variables have no effect on 'sqlstore serve': start 'sqlstore "+other.name+
				"', or use SQLSTORE_ variables", "environment-variables", names)
		}
	}
	if s.config.UnsafeNoFsync {
		log.Warn("--unsafe-no-fsync: acknowledged writes may be lost, and the database damaged, when its " +
			"machine crashes")
	}
	warnPlaintext(log, s.config.ListenClientURLs)
	warnUnused(log, s.unused(run.flags))
	if empty := emptyProtections(run.flags, run.as, os.LookupEnv); len(empty) > 0 {
		log.Warn(emptyProtectionsMessage, "settings", empty)
	}
	end, err := s.startTracing(log)
	if err != nil {
		return err
	}
	defer end()
	closeBackups, err := s.backups.open(&s.config)
	if err != nil {
		return err
	}
	defer closeBackups()
	config := s.config.WithDefaults() // of all memory; the flags keep their values
	limitHeap(log)
	config.Profiling = config.Profiling || run.as == etcdName && s.logLevel == "debug"
	server, err := start(config, stop)
	if errors.Is(err, context.Canceled) {
		log.Info("stopping before the start has finished", "signal", (<-stop).String())
		return nil
	}
	if err != nil {
		return err
	}
	notify(log, daemon.SdNotifyReady)
	defer watchdog(log, server)()
	ready := "ready"
	if run.as == etcdName {
		ready = "ready to serve client requests"
	}
	log.Info(ready, append([]any{"endpoints", server.Endpoints()}, holding(server.Conditions())...)...)
	hintLoopback(log, s.config.ListenClientURLs)
	r := &reloader{flags: run.flags, level: run.level, log: log, server: server, read: run.read}
	for {
		select {
		case <-hangup:
			if lost() {
				log.Info("stopping", "signal", "hangup", "reason", "the terminal was closed")
				notify(log, daemon.SdNotifyStopping)
				return closed(log, server)
			}
			notify(log, reloading())
			if err := server.RotateAuditLog(); err != nil {
				log.Error("the audit log stays in its old file", "error", err)
			}
			r.reload()
			notify(log, daemon.SdNotifyReady)
		case sig := <-stop:
			log.Info("stopping", "signal", sig.String())
			notify(log, daemon.SdNotifyStopping)
			err := closed(log, server)
			if run.as == etcdName && err == nil {
				end() // nothing else runs any more
				endBy(sig)
			}
			return err
		case <-server.Done():
			err := fmt.Errorf("the database is no longer writable, restart to recover: %w", server.Err())
			return errors.Join(err, server.Close())
		}
	}
}

// holding returns the attributes of a log line for the conditions that are as they should be, and what is set up. The
// others have lines of their own.
func holding(all []sqlstore.Condition) []any {
	var hold []string
	setup := ""
	for _, c := range all {
		if c.Status != "True" || c.Reason != c.Type {
			continue
		}
		hold = append(hold, c.Type)
		if c.Type == "Programmed" {
			setup = c.Message
		}
	}
	return []any{"conditions", hold, "setup", setup}
}

// closed closes the server, and logs that it has.
func closed(log *slog.Logger, server *sqlstore.Server) error {
	err := server.Close()
	if err == nil {
		log.Info("stopped")
	}
	return err
}

// endBy ends the process by the signal that stopped it, as etcd does. The first process of a container gets no signal
// from itself and ends normally.
func endBy(sig os.Signal) {
	s, ok := sig.(syscall.Signal)
	if !ok || os.Getpid() == 1 {
		return
	}
	signal.Reset(s)
	if syscall.Kill(os.Getpid(), s) == nil {
		<-time.After(time.Minute) // the signal arrives at any of the threads, soon
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
