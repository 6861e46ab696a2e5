package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Variables of etcd's and kine's flags are noticed, and those that others set for services of these names are not.
func TestVariablesOfOtherCommandLines(t *testing.T) {
	want := [][]string{{"ETCD_LISTEN_CLIENT_URLS", "ETCD_NAME"}, {"KINE_ENDPOINT"}}
	for i, other := range otherCommandLines {
		got := other.variables([]string{
			"ETCD_NAME=n", "ETCD_LISTEN_CLIENT_URLS=http://127.0.0.1:1", "ETCD_DATA_DIR=", "ETCDCTL_ENDPOINTS=x",
			"ETCD_SERVICE_HOST=10.0.0.1", "ETCD_PORT_2379_TCP=tcp://10.0.0.1:2379", "NAME=n",
			"KINE_ENDPOINT=e", "KINE_PORT=tcp://10.0.0.1:2379", "KINE_VERSION=1", "KINE_DEBUG=",
		})
		if !slices.Equal(got, want[i]) {
			t.Errorf("%s: %q, want %q", other.name, got, want[i])
		}
	}
}

// A misspelt variable stops the start. One that nobody means as a setting does not.
func TestUnknownVariables(t *testing.T) {
	serve, _, err := command().Find([]string{"serve"})
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []*cobra.Command{serve, command()} { // serve, and no command at all
		for assignment, want := range map[string]string{
			"SQLSTORE_NONSENSE=secret":  "unknown environment variable SQLSTORE_NONSENSE",
			"SQLSTORE_DATADIR=secret":   "variable SQLSTORE_DATADIR; did you mean SQLSTORE_DATA_DIR?",
			"SQLSTORE_NONSENSE_PORTS=1": "unknown environment variable SQLSTORE_NONSENSE_PORTS",
			"SQLSTORE_LISTEN_PORT=2379": "unknown environment variable SQLSTORE_LISTEN_PORT",
			"SQLSTORE_HELP=1":           "unknown environment variable SQLSTORE_HELP",
		} {
			err := refuseUnknown(cmd.Flags(), []string{"SQLSTORE_NAME=n", assignment, "HOME=/"})
			if !errors.Is(err, errSettings) || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%s of %q: %v, want %q", assignment, cmd.Name(), err, want)
			}
		}
		if err := refuseUnknown(cmd.Flags(), []string{
			"SQLSTORE_NAME=n", "SQLSTORE_DATA_DIR=", "HOME=/", "sqlstore_name=x",
			"SQLSTORE_VERSION=1.2", "SQLSTORE_TEST_SEED=1", "SQLSTORE_IMAGE=i", "SQLSTORE_BIN=b",
			"SQLSTORE_COMPLETION_DESCRIPTIONS=0",
			"SQLSTORE_ENV_LANG=C", "SQLSTORE_PORT_2379_TCP_START=tcp://10.0.0.1:2379",
			"SQLSTORE_ENDPOINT=http://127.0.0.1:2379", // of other commands
			"SQLSTORE_SERVICE_HOST=10.0.0.1", "SQLSTORE_SERVICE_PORT=2379", "SQLSTORE_SERVICE_PORT_CLIENT=2379",
			"SQLSTORE_PORT=tcp://10.0.0.1:2379", "SQLSTORE_PORT_2379_TCP=tcp://10.0.0.1:2379",
			"SQLSTORE_PORT_2379_TCP_PROTO=tcp", "SQLSTORE_PORT_2379_TCP_PORT=2379",
			"SQLSTORE_CLIENT_SERVICE_HOST=10.0.0.1", "SQLSTORE_CLIENT_PORT_2379_TCP=tcp://10.0.0.1:2379",
		}); err != nil {
			t.Errorf("variables of others, of %q: %v", cmd.Name(), err)
		}
	}
	if _, err := read(t, nil, map[string]string{"SQLSTORE_VERSION": "1.2"}, ""); err != nil {
		t.Errorf("with SQLSTORE_VERSION: %v", err)
	}
}
