package main

import (
	"log/slog"
	"net"
	"net/url"
	"os"

	"github.com/sqlstore/sqlstore/internal/listen"
)

// containerMarks are the files that Docker and Podman put into each container.
var containerMarks = []string{"/.dockerenv", "/run/.containerenv"}

// hintLoopback says so if the server runs in a container with a network of its own, whose loopback interface nobody
// else can reach, and listens on nothing else.
func hintLoopback(log *slog.Logger, clientURLs []string) {
	if !inContainer() || !loopbackOnly(clientURLs) {
		return
	}
	log.Info("clients outside this container's network cannot connect: the server listens on its loopback interface "+
		"only; set --listen-client-urls="+everywhere(clientURLs[0])+", and certificates or "+
		"--insecure-plaintext", "listen-client-urls", clientURLs)
}

// everywhere returns the URL for the same port of all interfaces.
func everywhere(clientURL string) string {
	u, err := url.Parse(clientURL)
	if err != nil { // the server reports it
		return clientURL
	}
	u.Host = net.JoinHostPort("0.0.0.0", u.Port())
	return u.String()
}

func inContainer() bool {
	for _, mark := range containerMarks {
		if _, err := os.Stat(mark); err == nil {
			return true
		}
	}
	return false
}

// loopbackOnly reports whether all URLs are TCP ports of the loopback interface. A unix socket may be in a volume.
func loopbackOnly(urls []string) bool {
	parsed, err := listen.ParseURLs(urls)
	if err != nil {
		return false
	}
	for _, u := range parsed {
		if !u.Local() || u.Scheme == "unix" || u.Scheme == "unixs" {
			return false
		}
	}
	return true
}

// warnPlaintext warns of URLs that other machines reach without TLS, which --insecure-plaintext allows.
func warnPlaintext(log *slog.Logger, clientURLs []string) {
	urls, err := listen.ParseURLs(clientURLs)
	if err != nil { // the server reports it
		return
	}
	for _, u := range urls {
		if !u.Secure() && !u.Local() {
			log.Warn("serving client traffic insecurely beyond the loopback interface; this is strongly discouraged!",
				"url", u.String())
		}
	}
}
