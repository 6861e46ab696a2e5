package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/backend"
)

func TestRedact(t *testing.T) {
	for dsn, want := range map[string]string{
		"postgres://u:secret@h:5432/db?sslmode=disable":        "postgres://u:xxxxx@h:5432/db?sslmode=disable",
		"postgres://u@h1:1,h2:2/db?target_session_attrs=any":   "postgres://u@h1:1,h2:2/db?target_session_attrs=any",
		"postgres://[::1]:5432/db":                             "postgres://[::1]:5432/db",
		"postgresql://h/db?password=secret&sslpassword=secret": "postgresql://h/db?password=xxxxx&sslpassword=xxxxx",
		"postgres://h/db?pass%77ord=secret":                    "postgres://h/db?pass%77ord=xxxxx",
		"postgres://h/db?secret":                               "postgres://h/db?xxxxx",
		"postgres://u:sec/ret?se@cret@h/db":                    "postgres://u:xxxxx@h/db",
		"postgres://u:secret":                                  "postgres://u:xxxxx",
		"postgres://u:%zzsecret@h:x/db":                        "postgres://u:xxxxx@h:xxxxx/db",
		"host=h user=u password=secret dbname=d":               "host=h user=u password=xxxxx dbname=d",
		"host = h password = 'se cr\\'et' port=1":              "host=h password=xxxxx port=1",
		"password='secret":                                     "password=xxxxx",
		"host=h pass word=secret port=1":                       "host=h xxxxx",
		"secret":                                               "xxxxx",
		"":                                                     "",
		"host=h options='-c a=secret' application_name='a b' PASSWORD=secret": "host=h options=xxxxx " +
			"application_name='a b' PASSWORD=xxxxx",
	} {
		got := Redact(dsn)
		if got != want {
			t.Errorf("%s: %s, want %s", dsn, got, want)
		}
		if strings.Contains(got, "secret") {
			t.Errorf("%s shows a secret", got)
		}
	}
}

// TestErrorsKeepSecrets opens invalid and unreachable DSNs.
func TestErrorsKeepSecrets(t *testing.T) {
	for dsn, want := range map[string]error{
		"postgres://u:secret@h:notaport/db":                                                  ErrDSN,
		"postgres://u:%zzsecret@h/db":                                                        ErrDSN,
		"postgres://u:x@secret@127.0.0.1:1/db":                                               ErrDSN,
		"postgres://u:x@secret/y@127.0.0.1:1/db":                                             ErrDSN,
		"postgres://u:12/secret@127.0.0.1:1/db":                                              ErrDSN,
		"host=h password='secret":                                                            ErrDSN,
		"postgres://u:secret@127.0.0.1:1/db?sslmode=bad":                                     ErrDSN,
		"postgres://u:secret@127.0.0.1:1/db?default_query_exec_mode=bad":                     ErrDSN,
		"postgres://u:secret@127.0.0.1:1/db?sslrootcert=/does/not/exist&sslmode=verify-full": ErrDSN,
		"postgres://u:secret@127.0.0.1:1/db?target_session_attrs=read-only":                  ErrParameter,
		"postgres://u:secret@127.0.0.1:1/db?target_session_attrs=standby":                    ErrParameter,
		"postgres://u:secret@127.0.0.1:1,127.0.0.1:2/db?target_session_attrs=prefer-standby": ErrParameter,
		"postgres://u:secret@127.0.0.1:1/db?target_session_attrs=primary":                    backend.ErrUnavailable,
		"postgres://u:secret@127.0.0.1:1/db?pool_max_conns=3":                                ErrParameter,
		"postgres://u:secret@127.0.0.1:1/db?pool_max_conns=0":                                ErrParameter,
		"postgres://u:secret@127.0.0.1:1/db?pool_max_conns=":                                 ErrParameter,
		"postgres://u:secret@127.0.0.1:1/db?pool_max_conns=many":                             ErrParameter,
		"postgres://u:secret@127.0.0.1:1/db?pool_max_conns=4":                                backend.ErrUnavailable,
		"postgres://u:secret@127.0.0.1:1/db?password=secret":                                 backend.ErrUnavailable,
		"postgres://u:secret@127.0.0.1:1/db?sslmode=disable":                                 backend.ErrUnavailable,
	} {
		_, err := Open(t.Context(), Config{DSN: dsn})
		if !errors.Is(err, want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: error %v, want %v", Redact(dsn), err, want)
		}
	}
	if _, err := Open(t.Context(), Config{DSN: "postgres://u:x@y@127.0.0.1:1/db"}); err == nil ||
		!strings.Contains(err.Error(), "as %40") {
		t.Errorf("an @ in a password: %v", err)
	}
}

// The error for a value that pgx refuses names its parameter, and not the value.
func TestErrorsNameParameters(t *testing.T) {
	for _, c := range []struct{ name, value string }{
		{"target_session_attrs", "master"},
		{"sslmode", "bad"},
		{"connect_timeout", "soon"},
		{"default_query_exec_mode", "bad"},
		{"channel_binding", "sslmode"},
		{"pool_max_conn_lifetime_jitter", "x"},
		{"pool_max_conn_lifetime", "x"},
	} {
		err := CheckDSN(Config{DSN: "postgres://u:secret@h/db?password=secret&" + c.name + "=" + c.value})
		if !errors.Is(err, ErrDSN) || !strings.Contains(err.Error(), "the value of "+c.name+", here") ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for _, dsn := range []string{
		"postgres://u:secret@h:99999/db", "postgres://u:secret@h:secret/db", "host=h port=0 password=secret",
	} {
		if err := CheckDSN(Config{DSN: dsn}); !errors.Is(err, ErrDSN) ||
			!strings.Contains(err.Error(), "its port is not a number") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", dsn, err)
		}
	}
	t.Setenv("PGTARGETSESSIONATTRS", "master")
	if err := CheckDSN(Config{DSN: "postgres://u@h/db"}); !errors.Is(err, ErrDSN) ||
		!strings.Contains(err.Error(), "target_session_attrs") {
		t.Errorf("the variable: %v", err)
	}
}

// TestAtSigns opens DSNs where an @ is escaped or belongs to a parameter.
func TestAtSigns(t *testing.T) {
	for _, dsn := range []string{
		"postgres://u:x%40y@127.0.0.1:1/a%40b?sslmode=disable&user=u@v",
		"user=u@v password=x@y host=127.0.0.1 port=1 sslmode=disable",
		"postgres:///db?host=/tmp/a@b&port=1&user=u",
		"user=u password='x://a@b@c' host=127.0.0.1 port=1 sslmode=disable",
	} {
		if _, err := Open(t.Context(), Config{DSN: dsn}); !errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("%s: %v", dsn, err)
		}
	}
}
