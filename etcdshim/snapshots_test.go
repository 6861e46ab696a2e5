package etcdshim

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sqlstore/sqlstore/internal/store"
)

// A stalled client gives way, the longest-stalled first, and only to clients that come much later.
func TestStalledSnapshotIsEvicted(t *testing.T) {
	over := func(x *sending) bool {
		select {
		case <-x.cut:
			return true
		default:
			return false
		}
	}
	synctest.Test(t, func(t *testing.T) {
		s := newSnapshots()
		var sent []*sending
		for range mostSnapshots {
			if err := s.acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
			x := s.send()
			x.begin()
			sent = append(sent, x)
			go func() {
				<-x.cut
				x.done()
				s.release()
			}()
			time.Sleep(time.Millisecond)
		}
		began := time.Now()
		sent[0].advance(1) // it waits for the database
		for i := range 2 {
			if err := s.acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
			if duration := time.Since(began); duration > time.Duration(i+1)*snapshotGrace+time.Second {
				t.Errorf("number %d waited for %s", i, duration)
			}
			synctest.Wait()
			for j, x := range sent {
				if over(x) != (j >= 1 && j <= i+1) {
					t.Errorf("after %d clients, client %d is cut off: %v", i+1, j, over(x))
				}
			}
		}
		time.Sleep(snapshotTimeout)
		synctest.Wait()
		if over(sent[0]) || !over(sent[3]) {
			t.Errorf("a client that waits for the database is cut off: %v, one that stalls: %v", over(sent[0]),
				over(sent[3]))
		}
		sent[0].begin()
		time.Sleep(snapshotTimeout)
		synctest.Wait()
		if !over(sent[0]) {
			t.Error("a client may stall forever")
		}
	})
}

// A client that always reads, but far too slowly, is cut off. Rows that its snapshot covers are not purged before.
func TestSlowSnapshotIsCutOff(t *testing.T) {
	for rate, ends := range map[int]bool{snapshotRate / 2: true, 2 * snapshotRate: false} {
		synctest.Test(t, func(t *testing.T) {
			s := newSnapshots()
			x := s.send()
			defer x.done()
			began := time.Now()
			for range 10_000 {
				x.begin()
				select {
				case <-x.cut:
					if d := time.Since(began); !ends || d > 3*snapshotSlack {
						t.Errorf("cut off after %v with %d bytes a second", d, rate)
					}
					return
				case <-time.After(snapshotChunk * time.Second / time.Duration(rate)):
				}
				x.advance(snapshotChunk)
			}
			if ends {
				t.Errorf("not cut off with %d bytes a second", rate)
			}
		})
	}
}

// The time that a client may take grows with what it has received, whatever the size of the store.
func TestLargeSnapshotIsNotCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newSnapshots().send()
		defer x.done()
		const part = 1 << 30
		for range 100_000 {
			x.begin()
			time.Sleep(time.Second)
			x.advance(part)
		}
		select {
		case <-x.cut:
			t.Errorf("cut off after %d bytes", x.sent)
		default:
		}
	})
}

// Clients that stop reading a snapshot do not keep others from one.
func TestStalledSnapshots(t *testing.T) {
	s := serve(t, Options{}, store.Config{})
	for i := range 4 {
		s.put(t, strings.Repeat("k", i+1), strings.Repeat("x", 1<<20))
	}
	begin := func(c pb.MaintenanceClient) pb.Maintenance_SnapshotClient {
		t.Helper()
		stream, err := c.Snapshot(t.Context(), &pb.SnapshotRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		if err != nil {
			t.Fatal(err)
		}
		return stream
	}
	rest := func(stream pb.Maintenance_SnapshotClient) (err error) {
		for err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	first := begin(pb.NewMaintenanceClient(s.overHTTP(t)))
	for range mostSnapshots - 1 {
		begin(s.maint)
	}
	for range 2 {
		if err := rest(begin(s.maint)); !errors.Is(err, io.EOF) {
			t.Errorf("a client that reads: %v", err)
		}
	}
	if err := rest(first); status.Code(err) != codes.ResourceExhausted && status.Code(err) != codes.Internal &&
		status.Code(err) != codes.Unknown {
		t.Errorf("the first that stood still: %v", err) // over HTTP the stream breaks off without an error
	}
}
