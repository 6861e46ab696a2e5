//go:build !linux

package main

import "github.com/coreos/go-systemd/v22/daemon"

func reloading() string { return daemon.SdNotifyReloading }
