package main

import (
	"slices"
	"testing"
)

// etcd's default lets every web page in. Only who asks for it gets it.
func TestEtcdOrigins(t *testing.T) {
	for _, c := range []struct{ args, want []string }{
		{nil, nil},
		{[]string{"--cors", "*"}, []string{"*"}},
		{[]string{"--cors", "https://a.example:443"}, []string{"https://a.example:443"}},
	} {
		s, _, err := (&etcdMode{args: c.args}).read()
		if err != nil || !slices.Equal(s.config.CORS, c.want) {
			t.Errorf("etcd %q: origins %q, %v; want %q", c.args, s.config.CORS, err, c.want)
		}
	}
}
