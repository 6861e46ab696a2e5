package listen

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/sqlstore/sqlstore/internal/setting"
)

// ErrPlaintext is returned for a URL without TLS whose address other machines can reach.
var ErrPlaintext = errors.New("refusing to listen without TLS beyond the loopback")

// URL is one address to listen on.
type URL struct {
	// Scheme is http, https, unix or unixs.
	Scheme string
	// Address is host:port, or the path of a unix socket.
	Address string
}

// ParseURLs parses listen URLs: http://host:port, https://host:port, unix://path or unixs://path. As in etcd, a host is
// an IP address or "localhost", and a unix URL of the form unix://host:port names a socket file "host:port" in the
// current directory.
func ParseURLs(urls []string) ([]URL, error) {
	parsed := make([]URL, 0, len(urls))
	for _, s := range urls {
		u, err := parse(strings.TrimSpace(s))
		if err != nil {
			return nil, fmt.Errorf("listen URL %q: %w", s, err)
		}
		parsed = append(parsed, u)
	}
	return parsed, nil
}

// ByAddress groups URLs with the same address, in their order. A port that the system chooses is different each time.
func ByAddress(urls []URL) (groups [][]URL) {
	at := map[string]int{}
	for _, u := range urls {
		i, known := at[u.Address]
		switch {
		case !known || strings.HasSuffix(u.Address, ":0"):
			at[u.Address] = len(groups)
			groups = append(groups, []URL{u})
		case !slices.Contains(groups[i], u):
			groups[i] = append(groups[i], u)
		}
	}
	return groups
}

// CheckAdvertised refuses URLs that clients cannot connect to. It accepts the URLs of [ParseURLs], with any host name.
func CheckAdvertised(urls []string) error {
	for _, s := range urls {
		if _, _, err := parseAnyHost(strings.TrimSpace(s)); err != nil {
			return fmt.Errorf("advertised URL %q: %w", s, err)
		}
	}
	return nil
}

func parse(s string) (URL, error) {
	u, host, err := parseAnyHost(s)
	if err == nil && !u.unix() && host != "localhost" && host != "" && net.ParseIP(host) == nil {
		return URL{}, errors.New("the host must be an IP address or localhost")
	}
	return u, err
}

func parseAnyHost(s string) (_ URL, host string, _ error) {
	u, err := url.Parse(s)
	if err != nil && !strings.Contains(s, "://") {
		return URL{}, "", errNoScheme(s)
	}
	if err != nil {
		return URL{}, "", errors.Unwrap(err) // without the URL, which the caller adds
	}
	switch u.Scheme {
	case "unix", "unixs":
		if u.Host+u.Path == "" {
			return URL{}, "", errors.New("the socket's path is missing")
		}
		return URL{Scheme: u.Scheme, Address: u.Host + u.Path}, "", nil
	case "http", "https":
	default:
		if !strings.Contains(s, "://") { // as in localhost:2379
			return URL{}, "", errNoScheme(s)
		}
		return URL{}, "", errors.New("the scheme must be http, https, unix or unixs")
	}
	if u.Path != "" && u.Path != "/" {
		return URL{}, "", errors.New("it must have no path")
	}
	host, port, err := net.SplitHostPort(u.Host)
	if err != nil {
		return URL{}, "", fmt.Errorf("it must be host:port: %w", err)
	}
	if port == "" {
		return URL{}, "", errors.New("the port is missing")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return URL{}, "", fmt.Errorf("the port %s is not from 0 to %d", port, math.MaxUint16)
	}
	return URL{Scheme: u.Scheme, Address: u.Host}, host, nil
}

func errNoScheme(s string) error {
	return fmt.Errorf("the scheme is missing: write http://%s or https://%[1]s", s)
}

// String returns the URL.
func (u URL) String() string { return u.Scheme + "://" + u.Address }

// Secure reports whether connections use TLS.
func (u URL) Secure() bool { return u.Scheme == "https" || u.Scheme == "unixs" }

// Local reports whether only this machine can reach the address.
func (u URL) Local() bool {
	if u.unix() {
		return true
	}
	host, _, err := net.SplitHostPort(u.Address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (u URL) unix() bool { return u.Scheme == "unix" || u.Scheme == "unixs" }

// CheckPlaintext returns [ErrPlaintext] for the first URL that is neither secure nor local.
func CheckPlaintext(urls []URL) error {
	for _, u := range urls {
		if !u.Secure() && !u.Local() {
			return fmt.Errorf("%s: %w: use https:// with a certificate, or allow it with %s", u, ErrPlaintext,
				setting.Name("InsecurePlaintext"))
		}
	}
	return nil
}

// SocketOptions are options of TCP listeners.
type SocketOptions struct {
	// ReusePort lets other listeners, also of other processes, open the same address (SO_REUSEPORT).
	ReusePort bool
	// ReuseAddress opens an address that connections in TIME_WAIT still use (SO_REUSEADDR). Go sets it on most systems
	// anyway.
	ReuseAddress bool
}

// Listen opens the address, without TLS. Only its owner can use a unix socket; one left behind by a dead process is
// replaced. Port 0 picks a free port, see [Bound].
func (u URL) Listen(ctx context.Context, options SocketOptions) (net.Listener, error) {
	var lc net.ListenConfig
	if !u.unix() {
		if options != (SocketOptions{}) {
			lc.Control = options.control
		}
		return lc.Listen(ctx, "tcp", u.Address)
	}
	l, err := lc.Listen(ctx, "unix", u.Address)
	if errors.Is(err, syscall.EADDRINUSE) && abandoned(ctx, u.Address) {
		if err := os.Remove(u.Address); err != nil {
			return nil, fmt.Errorf("replace an abandoned socket: %w", err)
		}
		l, err = lc.Listen(ctx, "unix", u.Address)
	}
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(u.Address, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// abandoned reports whether nobody listens on the socket at path.
func abandoned(ctx context.Context, path string) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&os.ModeSocket == 0 {
		return false
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// Bound returns u with the address of l, which has the real port if u's is 0.
func (u URL) Bound(l net.Listener) URL {
	if !u.unix() {
		u.Address = l.Addr().String()
	}
	return u
}
