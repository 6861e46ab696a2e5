package main

import (
	"fmt"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// reloading is the notification to systemd that a reload has begun. It needs a CLOCK_MONOTONIC timestamp, so that
// systemd can match the end of a reload with its beginning; see sd_notify(3).
func reloading() string {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return daemon.SdNotifyReloading
	}
	return fmt.Sprintf("%s\nMONOTONIC_USEC=%d", daemon.SdNotifyReloading, time.Duration(now.Nano()).Microseconds())
}
