package main

import (
	"slices"
	"testing"

	"github.com/spf13/pflag"
)

// An empty value that leaves a protection off is named. One that another value makes up for, or that protects nothing,
// is not.
func TestEmptyProtections(t *testing.T) {
	for name, c := range map[string]struct {
		command   string
		args      []string
		file      string
		variables []string // empty ones
		want      []string
	}{
		"none": {command: "serve", args: []string{"--backup-to=/b"}},
		"variables": {
			command: "serve", args: []string{"--backup-to=/b", "--trusted-ca-file=ca"}, variables: []string{
				"SQLSTORE_TRUSTED_CA_FILE", "SQLSTORE_CLIENT_CRL_FILE", "SQLSTORE_AUDIT_LOG",
				"SQLSTORE_BACKUP_RECIPIENT", "SQLSTORE_NAME", "ETCD_CLIENT_CRL_FILE",
			},
			want: []string{"SQLSTORE_CLIENT_CRL_FILE", "SQLSTORE_AUDIT_LOG", "SQLSTORE_BACKUP_RECIPIENT"},
		},
		"a switch": {
			command: "serve", args: []string{"--trusted-ca-file=ca"}, file: "client-cert-auth:\n",
			variables: []string{"SQLSTORE_CLIENT_CERT_AUTH"},
			want:      []string{"SQLSTORE_CLIENT_CERT_AUTH", "--config-file: client-cert-auth"},
		},
		"a switch that is set": {
			command: "serve", args: []string{"--trusted-ca-file=ca", "--client-cert-auth"},
			variables: []string{"SQLSTORE_CLIENT_CERT_AUTH"},
		},
		"flags": {command: "serve", args: []string{"--trusted-ca-file="}, want: []string{"--trusted-ca-file"}},
		"file": {
			command: "serve", args: []string{"--audit-log=/a", "--backup-to=/b"},
			file: "trusted-ca-file:\naudit-log: ''\nname: ''\nbackup-recipient: []\n",
			want: []string{"--config-file: trusted-ca-file", "--config-file: backup-recipient"},
		},
		"no backups": {command: "serve", variables: []string{"SQLSTORE_BACKUP_RECIPIENT", "SQLSTORE_CLIENT_CRL_FILE"}},
		"empty backups": {
			command: "serve", args: []string{"--backup-to="}, variables: []string{"SQLSTORE_BACKUP_TO"},
			want: []string{"SQLSTORE_BACKUP_TO", "--backup-to"},
		},
		"empty backups in the file": {
			command: "serve", file: "backup-to: ''\n", want: []string{"--config-file: backup-to"},
		},
		"etcd": {
			command: etcdName, args: []string{"--backup-to=/b", "--audit-log="},
			variables: []string{"ETCD_TRUSTED_CA_FILE", "SQLSTORE_TRUSTED_CA_FILE", "SQLSTORE_BACKUP_RECIPIENT"},
			want:      []string{"ETCD_TRUSTED_CA_FILE", "SQLSTORE_BACKUP_RECIPIENT"},
		},
		"kine": {
			command: kineName, variables: []string{"KINE_TRUSTED_CA_FILE", "KINE_SERVER_CERT_FILE", "KINE_CERT_FILE"},
			want: []string{"KINE_TRUSTED_CA_FILE", "KINE_SERVER_CERT_FILE"},
		},
	} {
		flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		(&settings{}).register(flags)
		if err := flags.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		if err := applyFile(flags, given(flags), []byte(c.file)); err != nil {
			t.Fatal(err)
		}
		got := emptyProtections(flags, c.command, func(name string) (string, bool) {
			return "", slices.Contains(c.variables, name)
		})
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
