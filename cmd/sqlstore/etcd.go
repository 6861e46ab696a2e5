package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/cmd/sqlstore/internal/etcdflags"
)

// etcdName is the command that takes etcd's command line. The binary runs it, too, if that is its own name.
const etcdName = "etcd"

// exitUsage is etcd's exit code for a command line that does not parse.
const exitUsage = 2

func etcdCommand() *cobra.Command {
	return &cobra.Command{
		Use: etcdName + " [flags]", Short: "Serve with etcd's command line, variables and configuration file",
		Long: "Serve with etcd's command line, variables (ETCD_...) and configuration file. The binary does the same " +
			"without this command if its name is etcd. For its flags, see --help.",
		DisableFlagParsing: true,
		RunE:               func(_ *cobra.Command, args []string) error { return runEtcd(args) },
	}
}

// runEtcd serves as etcd does. Errors: exitCode, errLogged.
func runEtcd(args []string) error {
	e := &etcdMode{args: args}
	s, flags, err := e.read()
	switch {
	case errors.Is(err, etcdflags.ErrHelp):
		return nil
	case errors.Is(err, etcdflags.ErrUsage):
		return exitCode(exitUsage)
	case err == nil && e.options.Text("version") == "true":
		fmt.Print(etcdVersions())
		return nil
	}
	if err == nil {
		err = refuseUnknown(flags, os.Environ())
	}
	level := &slog.LevelVar{}
	log, closeLog, logErr := e.logger(level)
	if logErr != nil {
		err = errors.Join(err, logErr)
	}
	defer closeLog()
	if err == nil {
		e.logNotes(log)
		err = serve(s, runner{
			flags: flags, level: level, log: log, as: etcdName,
			read: func() (*settings, *pflag.FlagSet, error) { return (&etcdMode{args: args}).read() },
		})
	} else {
		log.Warn("failed to verify flags", "error", err)
		return errLogged
	}
	if err != nil {
		log.Log(context.Background(), levelFatal, "the server failed", "error", err)
		return errLogged
	}
	return nil
}

// etcdMode reads settings by etcd's rules.
type etcdMode struct {
	args    []string
	options *etcdflags.Options
	unused  []unusedSetting // and not passed on
}

// read returns the settings of serve that etcd's amount to. After an error, options may still be set, for the log.
func (e *etcdMode) read() (*settings, *pflag.FlagSet, error) {
	s := &settings{}
	flags := pflag.NewFlagSet(etcdName, pflag.ContinueOnError)
	s.register(flags)
	var err error
	e.options, err = etcdflags.Parse(e.args, os.Environ(), ownFlags(flags),
		etcdflags.Output{Out: os.Stdout, Err: os.Stderr})
	if err == nil && e.options.Text("version") != "true" {
		err = e.convert(s, flags)
	}
	return s, flags, err
}

// ownFlags are the flags of serve that etcd lacks.
func ownFlags(flags *pflag.FlagSet) (own []etcdflags.Own) {
	flags.VisitAll(func(f *pflag.Flag) {
		if !etcdflags.Has(f.Name) && f.Name != "insecure-plaintext" { // etcd allows plaintext everywhere
			own = append(own, etcdflags.Own{
				Name: f.Name, Usage: f.Usage, Value: &ownValue{flags, f}, IgnoresEmpty: ignoresEmpty(f),
			})
		}
	})
	return own
}

// ownValue is a flag of serve as a value of package flag.
type ownValue struct {
	flags *pflag.FlagSet
	flag  *pflag.Flag
}

func (v *ownValue) Set(s string) error { return v.flags.Set(v.flag.Name, s) }
func (v *ownValue) IsBoolFlag() bool   { return v.flag != nil && v.flag.NoOptDefVal != "" }

// Replace sets a list to values, as they are.
func (v *ownValue) Replace(values []string) error {
	list, ok := v.flag.Value.(pflag.SliceValue)
	if !ok {
		return errors.New("takes one value, not a list")
	}
	v.flag.Changed = true
	return list.Replace(values)
}

// String also works on a zero value, which package flag makes.
func (v *ownValue) String() string {
	if v.flag == nil {
		return ""
	}
	return v.flag.Value.String()
}

// etcdVersions has the lines of etcd's --version. The second one names sqlstore instead of etcd's commit.
func etcdVersions() string {
	return fmt.Sprintf("etcd Version: %s\nGit SHA: sqlstore-%s\nGo Version: %s\nGo OS/Arch: %s/%s\n",
		sqlstore.EtcdVersion, sqlstore.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func (e *etcdMode) logNotes(log *slog.Logger) {
	log.Info("settings", e.options.Settings()...)
	for _, n := range e.options.Notes {
		log.Log(context.Background(), n.Level, n.Message, n.Args...)
	}
	warnUnused(log, e.unused)
}
