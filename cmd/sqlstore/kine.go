package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/backend/postgres"
	"github.com/sqlstore/sqlstore/backend/sqlite"
)

// kineName is the command that takes kine's command line. The binary runs it, too, if that is its own name.
const kineName = "kine"

// createTimeout limits the attempt to create the database. The start that follows waits for its server.
const createTimeout = 10 * time.Second

func kineCommand() *cobra.Command {
	return &cobra.Command{
		Use: kineName + " [flags]", Short: "Serve with kine's command line and variables",
		Long: "Serve with kine's command line and variables (KINE_...). The binary does the same without this " +
			"command if its name is kine. For its flags, see --help.",
		DisableFlagParsing: true,
		RunE:               func(_ *cobra.Command, args []string) error { return runKine(args) },
	}
}

// runKine serves as kine does. Errors: errLogged.
func runKine(args []string) error {
	m := &kineMode{args: args}
	s, flags, err := m.read()
	if errors.Is(err, pflag.ErrHelp) {
		return nil
	}
	if err == nil && m.version {
		fmt.Printf("kine version sqlstore-%s (etcd %s)\n", sqlstore.Version, sqlstore.EtcdVersion)
		return nil
	}
	if unknown := refuseUnknown(flags, os.Environ()); unknown != nil {
		err = errors.Join(err, unknown)
	}
	level := &slog.LevelVar{}
	log := s.logger(level)
	if err == nil {
		m.logNotes(log)
		createDatabase(log, &s.config)
		err = serve(s, runner{
			flags: flags, level: level, log: log, as: kineName,
			read: func() (*settings, *pflag.FlagSet, error) { return (&kineMode{args: args}).read() },
		})
	}
	if errors.Is(err, sqlite.ErrNotSQLStore) {
		path, _ := s.config.Database()
		err = fmt.Errorf("%w; a database of kine's is copied by 'sqlstore import --from kine+sqlite://%s "+
			"--datastore ...'", err, path)
	}
	if err != nil {
		log.Error("the server failed", "error", err)
		return errLogged
	}
	return nil
}

// createDatabase creates the Postgres database that is missing, as kine does. The start reports what is wrong with it.
func createDatabase(log *slog.Logger, c *sqlstore.Config) {
	if !c.OnPostgres() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), createTimeout)
	defer cancel()
	name, err := postgres.CreateDatabase(ctx, postgres.Config{
		DSN: c.Datastore, PasswordFile: c.DatastorePasswordFile,
	})
	switch {
	case err != nil:
		log.Debug("it is not known whether the database exists", "error", err)
	case name != "":
		log.Info("created the database", "name", name)
	}
}

// kineMode reads settings by kine's rules.
type kineMode struct {
	args    []string
	version bool
	without []string // flags that were given, and have no effect
}

// read returns the settings of serve that kine's amount to. Errors: [errSettings], [pflag.ErrHelp].
func (m *kineMode) read() (*settings, *pflag.FlagSet, error) {
	s, k := &settings{}, &kineFlags{}
	serve, own := pflag.NewFlagSet("serve", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	s.register(serve)
	flags := k.flagSet()
	var errs []error
	serve.VisitAll(func(f *pflag.Flag) {
		if flags.Lookup(f.Name) == nil && !replacedByKine[f.Name] {
			flags.AddFlag(f)
			own.AddFlag(f)
		} else if os.Getenv(variable(f.Name)) != "" {
			errs = append(errs, fmt.Errorf("%w: %s is for 'sqlstore serve': kine has a flag in its place, see "+
				"'sqlstore kine --help'", errSettings, variable(f.Name)))
		}
	})
	err := k.parse(flags, m.args, os.LookupEnv)
	if err == nil && k.version {
		m.version = true
		return s, serve, nil
	}
	if err = errors.Join(append(errs, err)...); err == nil {
		err = applySettings(own, os.LookupEnv)
	}
	if err == nil {
		err = k.convert(flags, serve)
	}
	if err == nil {
		m.without = k.withoutEffect(flags, s.config.OnPostgres())
		s.config.InsecurePlaintext = true // as kine
		err = s.finish()
	}
	return s, serve, err
}

func (m *kineMode) logNotes(log *slog.Logger) {
	if len(m.without) > 0 {
		log.Info("these settings of kine's have no effect", "settings", m.without)
	}
}
