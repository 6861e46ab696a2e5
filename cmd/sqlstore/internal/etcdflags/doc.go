// Package etcdflags reads etcd v3.7's command line, environment variables and configuration file, by etcd's rules:
//
//   - flags follow the syntax of Go's package flag, such as -name x, --name=x, and --auto-tls without a value;
//   - ETCD_ and a flag's name in capitals sets the flag (ETCD_DATA_DIR); setting both is an error;
//   - a file given with --config-file or ETCD_CONFIG_FILE replaces all flags and variables.
//
// [Parse] also checks what etcd checks before it starts, and refuses what would break a promise that etcd keeps and a
// server on a SQL database cannot. Settings that only sqlstore has are passed in, as flags of package flag: a
// configuration file does not replace them.
package etcdflags
