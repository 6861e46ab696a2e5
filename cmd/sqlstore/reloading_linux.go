package main

import (
	"fmt"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// reloading is what systemd is told when a reload begins. It takes the notice only with the time on its own clock, by which it
// tells the end of this reload from that of an earlier one, see sd_notify(3).
func reloading() string {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return daemon.SdNotifyReloading
	}
	return fmt.Sprintf("%s\nMONOTONIC_USEC=%d", daemon.SdNotifyReloading, time.Duration(now.Nano()).Microseconds())
}
