package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/sqlstore/sqlstore/status"
)

// reportMax is larger than any server's answer.
const reportMax = 1 << 20

// asker asks servers for their conditions.
type asker struct {
	certificates

	endpoints []string
	timeout   time.Duration
}

// target is one server to ask.
type target struct {
	name   string // as given
	url    string // without a path
	client *http.Client
}

// register defines the flags that name servers.
func (a *asker) register(f *pflag.FlagSet, endpoints string) {
	f.StringSliceVar(&a.endpoints, "endpoint", []string{"http://127.0.0.1:2379"}, endpoints)
	a.certificates.register(f)
	durationVar(f, &a.timeout, "command-timeout", 5*time.Second, "how long to wait for an answer")
}

// targets parses the endpoints. One without a scheme uses http, as in etcdctl, or https if TLS files are given.
func (a *asker) targets() ([]target, error) {
	config, err := a.tls()
	if err != nil {
		return nil, err
	}
	if len(a.endpoints) == 0 {
		return nil, fmt.Errorf("%w: --endpoint names no server", errSettings)
	}
	var all []target
	for _, name := range a.endpoints {
		full := name
		if !strings.Contains(full, "://") {
			scheme := "http"
			if a.secure() {
				scheme = "https"
			}
			full = scheme + "://" + full
		}
		u, err := url.Parse(full)
		if err != nil || u.User != nil {
			// it may hold a password
			return nil, fmt.Errorf("%w: --endpoint is not a URL like http://127.0.0.1:2379", errSettings)
		}
		transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
		switch u.Scheme {
		case "http", "https":
			if u.Host == "" {
				return nil, fmt.Errorf("%w: --endpoint %q names no host", errSettings, name)
			}
		case "unix", "unixs":
			socket := u.Host + u.Path
			transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", socket)
			}
			u.Scheme = map[string]string{"unix": "http", "unixs": "https"}[u.Scheme]
			u.Host = "localhost"
		default:
			return nil, fmt.Errorf("%w: --endpoint %q is none of http, https, unix and unixs", errSettings, name)
		}
		all = append(all, target{name: name, url: u.Scheme + "://" + u.Host, client: &http.Client{
			Transport: transport,
		}})
	}
	return all, nil
}

// ask asks one server.
func (a *asker) ask(ctx context.Context, t target) (*status.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	resp, err := a.get(ctx, t, "/status")
	if err != nil {
		return nil, fmt.Errorf("%s does not answer: %w; check that the server is running, and that this is one of "+
			"its client or metrics URLs", t.name, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, reportMax))
	if err != nil {
		return nil, fmt.Errorf("%s: read the answer: %w", t.name, err)
	}
	var r status.Report
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s to /status: check that it is a sqlstore server, and not an older version",
			t.name, resp.Status)
	}
	if err := json.Unmarshal(body, &r); err != nil || len(r.Conditions) == 0 {
		return nil, fmt.Errorf("%s reports no conditions at /status: check that it is a sqlstore server", t.name)
	}
	return &r, nil
}

// get requests a path of a server. Its errors do not name the server.
func (a *asker) get(ctx context.Context, t target, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.url+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := t.client.Do(req)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %s", a.timeout)
	}
	return resp, err
}
