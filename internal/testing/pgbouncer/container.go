package pgbouncer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"

	dockercontainer "github.com/moby/moby/api/types/container"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"

	"github.com/sqlstore/sqlstore/internal/testing/images"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver/guard"
)

// container is a PgBouncer in a container.
type container struct {
	engine *images.Engine
	name   string
}

// startContainer starts PgBouncer on the engine's own network, where it reaches the same servers as the engine's host.
// It also returns the host.
func startContainer(server *url.URL, port string) (pooler, string, error) {
	ctx := context.Background() // package images limits the time to get an image
	e, err := images.Find()
	if err != nil {
		return nil, "", fmt.Errorf("install pgbouncer ('sudo apt-get install pgbouncer') or a container engine: %w",
			err)
	}
	image, err := images.PgBouncer(ctx, e)
	if err != nil {
		return nil, "", err
	}
	c := &container{e, "sqlstore-test-" + strings.ToLower(rand.Text()[:12])}
	if err := guard.Container(c.name); err != nil {
		return nil, "", err
	}
	const dir = "/tmp/"
	req := testcontainers.ContainerRequest{
		Image:      image,
		Name:       c.name,
		WorkingDir: dir,
		Entrypoint: []string{"pgbouncer", configName},
		HostConfigModifier: func(h *dockercontainer.HostConfig) {
			h.NetworkMode, h.CgroupParent = "host", e.CgroupParent
		},
	}
	for name, content := range files(server, e.Bind, port) {
		req.Files = append(req.Files, testcontainers.ContainerFile{
			Reader:            strings.NewReader(content),
			ContainerFilePath: dir + name, FileMode: 0o644,
		})
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	_, err = testcontainers.GenericContainer(ctx, testcontainers.GenericContainerRequest{
		ContainerRequest: req,
		Started:          true, Logger: tclog.NewNoopLogger(),
	})
	if err != nil {
		return nil, "", errors.Join(err, c.remove())
	}
	return c, e.Host, nil
}

func (c *container) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return guard.RemoveContainer(ctx, c.engine.Client.Client, c.name)
}

func (c *container) logs() string {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return c.engine.Log(ctx, c.name, "200")
}
