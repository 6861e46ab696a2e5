package pgserver

import (
	"fmt"
	"net"
)

// conninfo is how a standby of this name connects to its primary.
func conninfo(primary, name string) (string, error) {
	host, port, err := net.SplitHostPort(primary)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("host=%s port=%s user=%s password=%s application_name=%s", host, port, superuser, password, name), nil
}
