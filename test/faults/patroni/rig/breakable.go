package rig

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	dockercontainer "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/testcontainers/testcontainers-go"

	"github.com/sqlstore/sqlstore/test/support/hosts"
)

const (
	dataDir = "/var/lib/postgresql/data"
	// diskSize is that of a node's disk. The data and the limited WAL need only a part of it.
	diskSize = "768m"
	filler   = dataDir + "/filler"

	// clockFile contains by how many seconds a host's clock is ahead.
	clockFile = "/tmp/clock"
	// steppedPrograms links Postgres' programs in steppedBin, where the server starts with libfaketime. Patroni keeps
	// the real clock: libfaketime breaks Python's time.sleep.
	steppedBin      = "/tmp/bin"
	steppedPrograms = `set -e; echo +0 >` + clockFile + `; mkdir -p ` + steppedBin + `; real=$(command -v postgres)
		ln -sf $(dirname $real)/* ` + steppedBin + `/; rm ` + steppedBin + `/postgres
		{ echo '#!/bin/sh'
		echo 'export FAKETIME_TIMESTAMP_FILE=` + clockFile + ` FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1'
		echo LD_PRELOAD=$(echo /usr/lib/*/faketime/libfaketime.so.1) exec $real '"$@"'; } >` + steppedBin + `/postgres
		chmod 755 ` + steppedBin + `/postgres; `

	binaryPath, binaryMode = "/usr/local/bin/sqlstore", 0o755
)

// breakable gives a node its own disk, clock and firewall.
func breakable(tb testing.TB, network *hosts.Network, name string,
	r testcontainers.ContainerRequest,
) testcontainers.ContainerRequest {
	tb.Helper()
	disk := network.Start(tb, hosts.Spec{Name: name + "-disk", Request: disk(r.Image)})
	r.Env["PATRONI_POSTGRESQL_BIN_DIR"] = steppedBin
	r.Entrypoint = []string{"bash", "-c", steppedPrograms + "exec entrypoint.sh"}
	config := r.HostConfigModifier
	r.HostConfigModifier = func(c *dockercontainer.HostConfig) {
		config(c)
		c.VolumesFrom = []string{disk.ID()}
		c.CapAdd = append(c.CapAdd, "NET_ADMIN")
	}
	return r
}

// disk describes a host that only keeps a node's file system, which is in memory, while the node is down.
func disk(image string) testcontainers.ContainerRequest {
	return testcontainers.ContainerRequest{
		Image: image, Entrypoint: []string{"sleep", "infinity"},
		HostConfigModifier: func(c *dockercontainer.HostConfig) {
			c.Mounts = []mount.Mount{{
				Type: mount.TypeVolume, Target: dataDir,
				VolumeOptions: &mount.VolumeOptions{DriverConfig: &mount.Driver{
					Name:    "local",
					Options: map[string]string{"type": "tmpfs", "device": "tmpfs", "o": "mode=1777,size=" + diskSize},
				}},
			}}
		},
	}
}

// limitWAL keeps what the nodes write far below the size of their disks. A standby that is down for longer than its
// slot allows is rebuilt.
func (c *Cluster) limitWAL() {
	c.Helper()
	var set []string
	for name, value := range map[string]string{
		"max_wal_size": "128MB", "min_wal_size": "64MB", "wal_keep_size": "64MB", "max_slot_wal_keep_size": "256MB",
		"checkpoint_timeout": "30s",
	} {
		set = append(set, fmt.Sprintf("--set postgresql.parameters.%s=%s", name, value))
	}
	c.Patronictl(c.Nodes[0], "edit-config --force "+strings.Join(set, " "))
}

// FillDisk fills a node's disk. A server that removes files afterwards may get a little space back.
func FillDisk(node *hosts.Host) error {
	// dd ends when the disk is full: first with whole megabytes, then with the rest.
	_, err := node.Run(fmt.Sprintf("dd if=/dev/zero of=%[1]s bs=1M 2>/dev/null; dd if=/dev/zero of=%[1]s2 bs=4k "+
		"2>/dev/null; test $(df --output=avail %[2]s | tail -1) -lt %[3]d", filler, dataDir, 32<<10))
	return err
}

// FreeDisk undoes FillDisk.
func FreeDisk(node *hosts.Host) error {
	_, err := node.Run("rm -f " + filler + " " + filler + "2")
	return err
}

// StepClock sets how far the wall clock of a node's Postgres is ahead of the real one, for all its processes at once.
func StepClock(node *hosts.Host, by time.Duration) error {
	_, err := node.Run(fmt.Sprintf("echo %s >%[2]s.new && mv %[2]s.new %[2]s", strings.TrimSpace(offset(by)),
		clockFile))
	return err
}

// StepReplica does the same for a replica, whose binary must be one that package build makes.
func StepReplica(replica *hosts.Host, by time.Duration) error {
	return replica.Write(clockFile, []byte(offset(by)), 0o644)
}

func offset(by time.Duration) string { return fmt.Sprintf("%+d\n", int64(by.Seconds())) }

// Direction is that of the packets that a cut drops.
type Direction int

// The directions of packets, as seen from the node that drops them.
const (
	Both Direction = iota
	In
	Out
)

// Cut makes a node silently drop packets from or to other hosts. Connections stay open. It replaces an earlier cut.
func Cut(node *hosts.Host, d Direction, from ...*hosts.Host) error {
	var peers []string
	for _, h := range from {
		peers = append(peers, h.Addr.String())
	}
	rules := []string{"add table ip cut", "delete table ip cut", "add table ip cut"}
	rule := func(chain, hook, side string) {
		rules = append(rules,
			"add chain ip cut "+chain+" { type filter hook "+hook+" priority 0; }",
			"add rule ip cut "+chain+" ip "+side+" { "+strings.Join(peers, ", ")+" } drop")
	}
	if d != Out {
		rule("incoming", "input", "saddr")
	}
	if d != In {
		rule("outgoing", "output", "daddr")
	}
	_, err := node.RunAsRoot("nft '" + strings.Join(rules, "; ") + "'")
	return err
}

// Mend undoes Cut.
func Mend(node *hosts.Host) error {
	_, err := node.RunAsRoot("nft 'add table ip cut; delete table ip cut'")
	return err
}

// SignalAll sends a signal to all processes of a program on a node, for example STOP to postgres.
func SignalAll(node *hosts.Host, signal, program string) error {
	// A process may end at any time, so neither the exit status nor the output may be that of its kill.
	out, err := node.RunAsRoot(`n=0; for p in /proc/[0-9]*; do if [ "$(cat $p/comm 2>/dev/null)" = ` + program +
		` ] && kill -` + signal + ` ${p#/proc/} 2>/dev/null; then n=$((n + 1)); fi; done; echo $n`)
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(out); err != nil || n == 0 {
		return fmt.Errorf("send %s to %s on %s: no such process: %s", signal, program, node.Name, out)
	}
	return nil
}
