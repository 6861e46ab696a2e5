package powercut

import (
	"context"
	"fmt"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
)

// pause is the time between two attempts to reach a server that starts.
const pause = 5 * time.Millisecond

// server is a sqlstore, always on the same address.
type server struct {
	process
	address string
}

func newServer(t *testing.T, args ...string) *server {
	t.Helper()
	address, err := launch.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + address
	s := &server{address: address}
	s.args = append([]string{
		launch.Binary(t), "serve", "--listen-client-urls", url, "--advertise-client-urls", url,
	}, args...)
	t.Cleanup(s.kill)
	return s
}

// ready waits until the server answers.
func (s *server) ready(down <-chan struct{}) error {
	conn, err := s.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	return s.await(down, func(ctx context.Context) error {
		for {
			_, err := pb.NewKVClient(conn).Range(ctx, &pb.RangeRequest{Key: []byte("k/")}, grpc.WaitForReady(true))
			if status.Code(err) != codes.Unavailable || ctx.Err() != nil {
				return err
			}
			select {
			case <-time.After(pause): // it refuses calls until it has opened its database
			case <-ctx.Done():
				return err
			}
		}
	})
}

func (s *server) dial() (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+s.address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: pause, Multiplier: 1, MaxDelay: pause}, MinConnectTimeout: time.Second,
		}))
}

// start starts everything, and returns when it is ready or the power is cut.
func (l *life) start() error {
	down := l.disk.Down()
	if l.database != nil {
		if err := l.database.start(); err != nil {
			return err
		}
		if err := l.database.ready(down); err != nil {
			return err
		}
	}
	for _, s := range l.servers {
		if err := s.start(); err != nil {
			return err
		}
	}
	for _, s := range l.servers {
		if err := s.ready(down); err != nil {
			return err
		}
	}
	return nil
}

// alive returns an error if something has ended.
func (s *stage) alive() error {
	if s.database != nil && s.database.life.Err() != nil {
		return fmt.Errorf("postgres: %w", errEnded)
	}
	for _, server := range s.servers {
		if server.life.Err() != nil {
			return fmt.Errorf("%s: %w", server.address, errEnded)
		}
	}
	return nil
}

// kill ends everything.
func (s *stage) kill() {
	if s.database != nil {
		s.database.kill()
	}
	for _, server := range s.servers {
		server.kill()
	}
}

// logs returns what everything has written since its start, after kill.
func (s *stage) logs() string {
	text := ""
	if s.database != nil {
		text = fmt.Sprintf("\nlog of Postgres:\n%s", s.database.log)
	}
	for _, server := range s.servers {
		text += fmt.Sprintf("\nlog of %s:\n%s", server.address, server.log)
	}
	return text
}
