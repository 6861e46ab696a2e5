package machine

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sqlstore/sqlstore/backend"
)

// unsynchronized is the state of a clock that nothing adjusts, see adjtimex(2).
const unsynchronized = 5

// clock says whether the system's clock is adjusted.
func clock() backend.Finding {
	f := backend.Finding{Subject: "clock"}
	var t unix.Timex
	switch state, err := unix.Adjtimex(&t); {
	case err != nil:
		f.Severity, f.Detail = backend.Warning, fmt.Sprint("its state is unknown: ", err)
		f.Advice = "see that something synchronizes it"
	case state == unsynchronized:
		f.Severity, f.Detail = backend.Warning, "nothing synchronizes it"
		f.Advice = "run chrony or systemd-timesyncd: certificates, tokens, backups and history depend on the time"
	default:
		f.Detail = fmt.Sprintf("synchronized within %v", time.Duration(t.Maxerror)*time.Microsecond)
	}
	return f
}
