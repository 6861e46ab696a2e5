package main

import (
	"log/slog"
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
		"only; set --listen-client-urls=http://0.0.0.0:2379, and certificates or "+
		"--insecure-plaintext", "listen-client-urls", clientURLs)
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
