package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// A setting without effect is named, wherever it is set and under each command line. Defaults, empty values and what is
// in use are not.
func TestUnusedSettings(t *testing.T) {
	const (
		onPostgres = "--datastore=postgres://u@h/d"
		onTLS      = "--listen-client-urls=https://127.0.0.1:1"
		files      = "--cert-file=c --key-file=k --trusted-ca-file=a --client-cert-auth --client-crl-file=l "
		traces     = "--distributed-tracing-address=h:1 --distributed-tracing-service-name=n " +
			"--distributed-tracing-instance-id=i --distributed-tracing-sampling-rate=1 "
		ofSQLite   = "--no-page-checksums --disk-reserve-bytes=1MiB --bootstrap-defrag-threshold-megabytes=1"
		ofPostgres = "--datastore-wait=1s --datastore-max-staleness=1s"
		ofTLS      = "--auto-tls --self-signed-cert-validity=2 --tls-min-version=TLS1.2 --tls-max-version=TLS1.3 " +
			"--cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 "
	)
	namesOf := func(args string) (names []string) {
		for arg := range strings.FieldsSeq(args) {
			name, _, _ := strings.Cut(arg, "=")
			names = append(names, name)
		}
		return names
	}
	for name, c := range map[string]struct {
		command string // default: serve
		args    string
		env     map[string]string
		file    string
		want    []string
	}{
		"defaults":             {},
		"defaults on Postgres": {args: onPostgres},

		"audit log": {args: "--audit-log=- --audit-log-level=all"},
		"no audit log": {
			args: "--audit-log-level=writes", want: []string{"--audit-log-level"},
		},
		"traces":    {args: "--enable-distributed-tracing " + traces},
		"no traces": {args: traces, want: namesOf(traces)},

		"TLS": {args: onTLS + " --client-cert-allowed-hostname=h " + files + ofTLS[strings.Index(ofTLS, "--tls"):]},
		"no TLS": {
			args: files + ofTLS + "--client-cert-allowed-hostname=h",
			want: slices.Concat(namesOf(files), []string{"--client-cert-allowed-hostname"}, namesOf(ofTLS)),
		},
		"TLS of the console":      {args: "--listen-console-urls=https://127.0.0.1:2 " + files},
		"TLS on a socket":         {args: "--listen-metrics-urls=unixs:///s " + files},
		"an invalid URL":          {args: "--listen-client-urls=nonsense " + files},
		"a generated certificate": {args: onTLS + " --auto-tls --self-signed-cert-validity=2"},
		"no generated certificate": {
			args: onTLS + " --cert-file=c --key-file=k --self-signed-cert-validity=2",
			want: []string{"--self-signed-cert-validity"},
		},
		"an unused generated certificate": {
			args: onTLS + " --cert-file=c --key-file=k --auto-tls --self-signed-cert-validity=2",
			want: []string{"--self-signed-cert-validity"},
		},
		// They guard all paths, not only the gateway.
		"hosts":           {args: "--host-whitelist=h --cors=https://h --enable-grpc-gateway=false"},
		"hosts of a port": {args: onTLS + ",http://127.0.0.1:1 --host-whitelist=h"},
		"hosts over TLS":  {args: onTLS + " --host-whitelist=h", want: []string{"--host-whitelist"}},

		"simple tokens": {args: "--auth-token=simple --auth-token-ttl=60"},
		"JWTs": {
			args: "--auth-token=jwt,sign-method=HS256,priv-key=k --auth-token-ttl=60",
			want: []string{"--auth-token-ttl"},
		},
		"compaction":              {args: "--auto-compaction-mode=revision --auto-compaction-retention=1000"},
		"compaction of a time":    {args: "--auto-compaction-mode=periodic --auto-compaction-retention=1h"},
		"compaction of old hours": {args: "--auto-compaction-mode=periodic --auto-compaction-retention=12"},
		"no compaction":           {args: "--auto-compaction-mode=periodic", want: []string{"--auto-compaction-mode"}},
		"no compaction, in units": {
			args: "--auto-compaction-mode=periodic --auto-compaction-retention=0h",
			want: []string{"--auto-compaction-mode"},
		},

		"settings of SQLite":             {args: ofSQLite},
		"settings of SQLite on Postgres": {args: onPostgres + " " + ofSQLite, want: namesOf(ofSQLite)},
		"settings of Postgres":           {args: onPostgres + " " + ofPostgres},
		"settings of Postgres on SQLite": {args: ofPostgres, want: namesOf(ofPostgres)},
		"a directory on Postgres":        {args: onPostgres + " --data-dir=/data"}, // the image's command gives one
		"what is off":                    {args: onPostgres + " --no-page-checksums=false --client-cert-auth=false"},
		"empty flags":                    {args: "--audit-log-level= --auth-token-ttl= --cert-file= --cipher-suites="},
		"empty variables": {
			env: map[string]string{"SQLSTORE_AUDIT_LOG_LEVEL": "", "SQLSTORE_CERT_FILE": ""},
		},
		"an empty list": {file: "cipher-suites: []\naudit-log-level:\n"},

		"variables": {
			env:  map[string]string{"SQLSTORE_AUDIT_LOG_LEVEL": "all", "SQLSTORE_AUTO_COMPACTION_MODE": "revision"},
			want: []string{"--audit-log-level", "--auto-compaction-mode"},
		},
		"file": {
			file: "audit-log-level: all\ntls-min-version: TLS1.3\nclient-cert-allowed-cn: [a, b]\n",
			want: []string{"--audit-log-level", "--client-cert-allowed-cn", "--tls-min-version"},
		},

		"etcd": {command: etcdName},
		"etcd without effect": {
			command: etcdName,
			args: "--cert-file=c --client-cert-allowed-cn=a --tls-min-version=TLS1.3 --auto-compaction-mode=revision " +
				"--audit-log-level=all " + traces,
			want: slices.Concat([]string{"--cert-file", "--client-cert-allowed-cn"}, namesOf(traces), []string{
				"--tls-min-version", "--auto-compaction-mode", "--audit-log-level",
			}),
		},
		"kine": {command: kineName},
		"kine over TLS": {
			command: kineName, args: "--server-cert-file=c --server-key-file=k --trusted-ca-file=a",
		},
		"kine without effect": {command: kineName, args: "--audit-log-level=all", want: []string{"--audit-log-level"}},
	} {
		var (
			s       *settings
			flags   *pflag.FlagSet
			dropped []unusedSetting
			err     error
		)
		switch args := strings.Fields(c.args); c.command {
		case etcdName:
			e := &etcdMode{args: args}
			s, flags, err = e.read()
			dropped = e.unused
		case kineName:
			s, flags, err = (&kineMode{args: args}).read()
		default:
			s, flags, err = readFlags(t, args, c.env, c.file)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, u := range append(dropped, s.unused(flags)...) {
			got = append(got, "--"+u.flag)
		}
		slices.Sort(got)
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
