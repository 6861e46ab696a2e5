package main

import "testing"

func TestLoopbackOnly(t *testing.T) {
	for _, c := range []struct {
		urls []string
		want bool
	}{
		{[]string{"http://localhost:2379"}, true},
		{[]string{"http://127.0.0.1:2379", "https://[::1]:2379"}, true},
		{[]string{"http://127.0.0.1:2379", "http://10.0.0.1:2379"}, false},
		{[]string{"http://0.0.0.0:2379"}, false},
		{[]string{"unix:///run/sqlstore.sock"}, false},
	} {
		if got := loopbackOnly(c.urls); got != c.want {
			t.Errorf("%v: %v", c.urls, got)
		}
	}
}
