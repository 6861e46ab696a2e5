package etcdshim

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/internal/store"
)

// Unread answers to the gateway's clients are bounded like those over gRPC: the server closes the connections of
// clients that block others.
func TestGatewayUnreadAnswers(t *testing.T) {
	t.Parallel() // it waits most of its time
	hungUp := make(chan any, 100)
	s := serve(t, Options{}, store.Config{Caller: Caller, HangUp: func(caller any) { hungUp <- caller }})
	web := webOf(t, s)
	for i := range 22 {
		s.put(t, fmt.Sprint("a", i), strings.Repeat("x", 1<<20))
	}
	const (
		all = `{"key":"YQ==","range_end":"Yg=="}`
		one = `{"key":"YTA="}`
	)
	clients := map[string]net.Conn{}
	for _, body := range []string{all, all, all, one} { // 66 MiB, which count as 330 (see answerFactor), and a last one
		conn := speak(t, web, "POST /v3/kv/range"+fmt.Sprintf(counted, len(body))+body)
		clients[conn.LocalAddr().String()] = conn
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := conn.Read(make([]byte, 1)); err != nil { // the next one waits when there is no memory
			t.Fatal(err)
		}
	}
	select {
	case caller := <-hungUp:
		address := CallerAddress(caller)
		if address == nil || clients[address.String()] == nil {
			t.Errorf("hung up on %v", caller)
		}
	default:
		t.Error("nothing bounds the unread answers")
	}
	for _, conn := range clients {
		_ = conn.Close()
	}
	eventually(t, "nothing is accounted for", func() bool {
		permit, err := s.store.AcquirePermit(t.Context(), store.DefaultResultBytes)
		permit.End()
		return err == nil && s.Serving() == 0
	})
}

// stuck is a client that reads nothing: once it is offered something, it waits for the end.
type stuck struct {
	http.ResponseWriter
	offered *atomic.Int64
	end     <-chan struct{}
}

func (w *stuck) Write([]byte) (int, error) {
	w.offered.Add(1)
	<-w.end
	return 0, io.ErrClosedPipe
}

// Answers to many concurrent requests count before the gateway has them, and before their values are read.
func TestGatewayBurst(t *testing.T) {
	for name, cache := range map[string]int64{"values in memory": 0, "values in the database": 1} {
		t.Run(name, func(t *testing.T) { testGatewayBurst(t, cache) })
	}
}

func testGatewayBurst(t *testing.T, cache int64) {
	t.Parallel() // it waits most of its time
	type hangUp struct {
		caller any
		begun  int64
	}
	var begun atomic.Int64
	hungUp := make(chan hangUp, 100)
	note := func(caller any) { hungUp <- hangUp{caller, begun.Load()} }
	s := serve(t, Options{}, store.Config{Caller: Caller, HangUp: note, CacheBytes: cache})
	const (
		mib     = 8
		clients = 30
		limit   = 256 // MiB of results that may wait, as limited by the engine
	)
	for i := range mib {
		s.put(t, fmt.Sprint("a", i), strings.Repeat("x", 1<<20))
	}
	end := make(chan struct{})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var wg sync.WaitGroup
	for i := range clients {
		all := strings.NewReader(`{"key":"YQ==","range_end":"Yg=="}`)
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v3/kv/range", all)
		r.RemoteAddr = fmt.Sprintf("192.0.2.%d:1", i)
		wg.Go(func() { s.Gateway.ServeHTTP(&stuck{httptest.NewRecorder(), &begun, end}, r) })
	}
	var first hangUp
	select {
	case first = <-hungUp:
	case <-time.After(time.Minute):
		close(end)
		t.Fatalf("the server hangs up on nobody within a minute, while %d answers have begun", begun.Load())
	}
	leave() // those that wait need no answer
	close(end)
	if address := CallerAddress(first.caller); address == nil || !strings.HasPrefix(address.String(), "192.0.2.") {
		t.Errorf("hung up on %v", first.caller)
	}
	// One answer for each processor may have begun while there was memory.
	if most := int64(limit/(answerFactor*mib) + max(2, runtime.GOMAXPROCS(0))); first.begun > most {
		t.Errorf("%d answers of %d MiB wait, and there is memory for %d", first.begun, answerFactor*mib, most)
	}
	wg.Wait()
	eventually(t, "the calls end", func() bool { return s.Serving() == 0 })
}

// An answer counts once, whatever counts it, and not at all if no request waits for it.
func TestGatewayAnswersCountOnce(t *testing.T) {
	s := serve(t, Options{}, store.Config{})
	w := &answerWriter{ResponseWriter: httptest.NewRecorder()}
	charge := func(bytes int64) *store.Account { return s.store.Charge(t.Context(), bytes) }
	made, has, late := charge(100), charge(200), charge(300)
	for i, step := range []struct {
		do   func()
		want [3]int64
	}{
		{func() { w.charge(made) }, [3]int64{100, 200, 300}},
		{func() { w.charge(has) }, [3]int64{0, 200, 300}},
		{func() { _, _ = w.Write(make([]byte, 10)) }, [3]int64{0, 0, 300}},
		{w.done, [3]int64{0, 0, 300}},
		{func() { w.charge(late) }, [3]int64{}},
	} {
		step.do()
		if got := [3]int64{made.Bytes(), has.Bytes(), late.Bytes()}; got != step.want {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
	}
}

// An answer that arrives just as its request ends does not count.
func TestGatewayAnswerBesideItsEnd(t *testing.T) {
	s := serve(t, Options{}, store.Config{})
	for i := range 60_000 {
		account := s.store.Charge(t.Context(), 1)
		w := &answerWriter{}
		var both sync.WaitGroup
		both.Go(func() { w.charge(account) })
		both.Go(w.done)
		both.Wait()
		if n := account.Bytes(); n != 0 {
			t.Fatalf("round %d: %d bytes still count", i, n)
		}
	}
}
