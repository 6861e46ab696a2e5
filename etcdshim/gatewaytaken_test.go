package etcdshim

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sqlstore/sqlstore/store"
)

// Answers that clients of the gateway do not take are bounded as those of gRPC are: who stands in the way of others is
// hung up on.
func TestGatewayAnswersThatNobodyTakes(t *testing.T) {
	t.Parallel() // it waits most of its time
	hungUp := make(chan any, 100)
	s := serve(t, Options{}, store.Config{Caller: Caller, HangUp: func(caller any) { hungUp <- caller }})
	web := webOf(t, s)
	for i := range 20 {
		s.put(t, fmt.Sprint("a", i), strings.Repeat("x", 1<<20))
	}
	const all = `{"key":"YQ==","range_end":"Yg=="}`
	clients := map[string]net.Conn{}
	for range 16 { // 320 MiB, and as much of JSON
		conn := speak(t, web, "POST /v3/kv/range"+fmt.Sprintf(counted, len(all))+all)
		clients[conn.LocalAddr().String()] = conn
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := conn.Read(make([]byte, 1)); err != nil { // the next one waits when there is no room
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
		t.Error("nothing bounds the answers that nobody takes")
	}
	for _, conn := range clients {
		_ = conn.Close()
	}
	eventually(t, "nothing is kept", func() bool {
		turn, err := s.store.Turn(t.Context())
		turn.End()
		return err == nil && s.Serving() == 0
	})
}
