//go:build unix

package listen_test

import (
	"testing"

	"github.com/sqlstore/sqlstore/internal/listen"
)

// Two listeners share a port only with the option.
func TestReusePort(t *testing.T) {
	urls, err := listen.ParseURLs([]string{"http://127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	shared := listen.SocketOptions{ReusePort: true, ReuseAddress: true}
	first, err := urls[0].Listen(t.Context(), shared)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	same := urls[0].Bound(first)
	if l, err := same.Listen(t.Context(), listen.SocketOptions{}); err == nil {
		_ = l.Close()
		t.Error("a listener without the option took the port")
	}
	second, err := same.Listen(t.Context(), shared)
	if err != nil {
		t.Fatal(err)
	}
	_ = second.Close()
}

func TestByAddress(t *testing.T) {
	urls, err := listen.ParseURLs([]string{
		"http://127.0.0.1:1", "https://127.0.0.1:1", "http://127.0.0.1:0", "https://127.0.0.1:0",
		"http://127.0.0.1:2", "http://127.0.0.1:1",
	})
	if err != nil {
		t.Fatal(err)
	}
	var sizes []int
	for _, group := range listen.ByAddress(urls) {
		sizes = append(sizes, len(group))
	}
	if len(sizes) != 4 || sizes[0] != 2 {
		t.Errorf("groups of %v, want 2, 1, 1 and 1", sizes)
	}
}
