package listen_test

import (
	"testing"

	"github.com/sqlstore/sqlstore/internal/listen"
)

func TestCheckAdvertised(t *testing.T) {
	for url, good := range map[string]bool{
		"http://127.0.0.1:2379": true, "https://etcd.example:2379": true, " http://[::1]:1": true,
		"unix:///run/s": true, "unixs://localhost:1": true,
		"junk": false, "": false, "etcd.example:2379": false, "http://etcd.example": false,
		"http://etcd.example:":       false,
		"http://etcd.example:1/path": false, "ftp://etcd.example:1": false, "http://a b:1": false,
	} {
		if err := listen.CheckAdvertised([]string{"http://first:1", url}); (err == nil) != good {
			t.Errorf("%q: %v", url, err)
		}
	}
}
