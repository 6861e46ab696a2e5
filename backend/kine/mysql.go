package kine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-sql-driver/mysql"

	"github.com/sqlstore/sqlstore/backend"
)

// maria is how to connect to a database of MySQL or MariaDB.
type maria struct{ config *mysql.Config }

// driverDSN matches what kine expects after mysql://, which is not a URL: user:password@tcp(host:3306)/database.
var driverDSN = regexp.MustCompile(`(^|@)(tcp|unix)\([^)]*\)/`)

func parseMySQL(raw string) (dialect, error) {
	_, rest, _ := strings.Cut(raw, "://")
	config, err := mysqlConfig(raw, rest)
	if err == nil {
		err = useFiles(config)
	}
	if err != nil {
		return nil, err
	}
	if config.DBName == "" {
		config.DBName = defaultDatabase
	}
	return maria{config}, nil
}

func mysqlConfig(raw, rest string) (*mysql.Config, error) {
	if driverDSN.MatchString(rest) {
		config, err := mysql.ParseDSN(rest)
		if err != nil {
			return nil, fmt.Errorf("parse its DSN: %w", err)
		}
		return config, nil
	}
	u, err := parseURL(raw)
	if err != nil {
		return nil, err
	}
	config, err := mysql.ParseDSN("/?" + u.Query().Encode()) // the driver looks for the last slash
	if err != nil {
		return nil, fmt.Errorf("parse the parameters of its URL: %w", err)
	}
	config.User = u.User.Username()
	config.Passwd, _ = u.User.Password()
	config.Net, config.Addr = "tcp", u.Host
	if u.Port() == "" {
		config.Addr = net.JoinHostPort(u.Hostname(), "3306")
	}
	config.DBName = strings.TrimPrefix(u.Path, "/")
	return config, nil
}

func (m maria) reader() (*sql.DB, error) {
	connector, err := mysql.NewConnector(m.config)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// snapshot begins with the first read.
func (maria) snapshot(ctx context.Context, db *sql.DB) (*sql.Tx, error) {
	return db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
}

// Numbers of MySQL's errors.
const (
	errDenied         = 1045
	errUnknown        = 1049
	errDeniedDatabase = 1044
	errIndexExists    = 1061
	errNoTable        = 1146
)

func (m maria) explain(err error) error {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	if ok && slices.Contains([]uint16{errDenied, errUnknown, errDeniedDatabase, errNoTable}, e.Number) {
		return fmt.Errorf("%w: %w", backend.ErrSource, err)
	}
	return err
}

func (maria) same(name string) string { return strings.ToLower(strings.TrimRight(name, " ")) }

// longestName is the length of the column.
const longestName = 630

func (maria) fits(name string) error {
	switch {
	case len(name) > longestName:
		return fmt.Errorf("kine's column in MySQL is %d characters long", longestName)
	case strings.HasSuffix(name, " "):
		return errors.New("MySQL ignores spaces at the end")
	case strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }):
		return errors.New("kine's column in MySQL stores ASCII only")
	}
	return nil
}

func (maria) parameter(int) string { return "?" }

func (maria) link() string {
	return `UPDATE kine AS k JOIN kine AS p ON p.id = k.prev_revision
		SET k.old_value = p.value, k.create_revision = ` + linkedCreate + ` WHERE k.name <> 'compact_rev_key'`
}

// mysqlTable and mysqlIndexes are what kine 0.17 makes.
const mysqlTable = `CREATE TABLE IF NOT EXISTS kine (
	id BIGINT UNSIGNED AUTO_INCREMENT, name VARCHAR(630) CHARACTER SET ascii, created INTEGER, deleted INTEGER,
	create_revision BIGINT UNSIGNED, prev_revision BIGINT UNSIGNED, lease INTEGER, value MEDIUMBLOB,
	old_value MEDIUMBLOB, PRIMARY KEY (id))`

var mysqlIndexes = []string{
	`CREATE INDEX kine_name_index ON kine (name)`,
	`CREATE INDEX kine_name_id_index ON kine (name, id)`,
	`CREATE INDEX kine_id_deleted_index ON kine (id, deleted)`,
	`CREATE INDEX kine_prev_revision_index ON kine (prev_revision)`,
	`CREATE UNIQUE INDEX kine_name_prev_revision_uindex ON kine (name, prev_revision)`,
}

// write makes the table first, as MySQL commits with each change of a schema.
func (m maria) write(ctx context.Context, f func(*sql.Tx) error) error {
	db, err := m.reader()
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, mysqlTable); err != nil {
		return err
	}
	for _, index := range mysqlIndexes {
		_, err := db.ExecContext(ctx, index)
		if e, ok := errors.AsType[*mysql.MySQLError](err); err != nil && (!ok || e.Number != errIndexExists) {
			return err
		}
	}
	return inTransaction(ctx, db, nil, func(tx *sql.Tx) error {
		if err := checkEmpty(ctx, tx); err != nil {
			return err
		}
		return f(tx)
	})
}
