package faults

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sqlstore/sqlstore/internal/audit"
	"github.com/sqlstore/sqlstore/internal/conditions"
	"github.com/sqlstore/sqlstore/internal/listen"
	"github.com/sqlstore/sqlstore/internal/setting"
)

// PasswordFile checks the file that holds the password for the database.
func PasswordFile(path string) *conditions.Fault {
	_, err := os.ReadFile(path) // a directory opens without an error
	if err == nil {
		return nil
	}
	return &conditions.Fault{Reason: "PasswordFileUnreadable", Message: fmt.Sprintf(
		"the datastore password file: %v; no new connection to the database can be opened: restore the file", err)}
}

// Audit is the fault of an audit log with an error.
func Audit(err error) *conditions.Fault {
	if err == nil {
		return nil
	}
	reason := "WriteFailed"
	advice := "make room, or make its directory writable; then send SIGHUP to open the file again"
	if errors.Is(err, audit.ErrLost) {
		reason, advice = "EntriesLost", "put it on a faster disk, or log less ("+setting.Name("AuditLogLevel")+")"
	}
	return &conditions.Fault{Reason: reason, Message: fmt.Sprintf(
		"%v; calls are served and not logged: %s", err, advice)}
}

// Certificates checks whether the TLS files can be used, and when the certificates in use expire.
func Certificates(certs *listen.Certificates, now time.Time) (missing, expiring *conditions.Fault) {
	state := certs.State()
	if state.Err != nil {
		missing = &conditions.Fault{Reason: "CertificateUnreadable", Message: fmt.Sprintf(
			"the TLS files cannot be used, and the server keeps the ones it read before: %v; restore them, "+
				"they are read again at once", state.Err)}
	}
	return missing, expiry(state.Served, now)
}

// expiry returns a fault for the certificate that expires first, if one expires soon.
func expiry(served []listen.Validity, now time.Time) *conditions.Fault {
	var first *listen.Validity
	for i := range served {
		if v := &served[i]; v.Expiring(now) && (first == nil || v.NotAfter.Before(first.NotAfter)) {
			first = v
		}
	}
	if first == nil {
		return nil
	}
	f := &conditions.Fault{Reason: "NearEnd", Message: "expires"}
	if first.NotAfter.Before(now) {
		f.Reason, f.Message = "Expired", "expired"
	}
	f.Message = fmt.Sprintf("the certificate in %s %s on %s: replace the file, the server uses the new one at once",
		first.File,
		f.Message, first.NotAfter.UTC().Format(time.RFC3339))
	return f
}
