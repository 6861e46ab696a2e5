package show

import "testing"

func TestNumber(t *testing.T) {
	for n, want := range map[int64]string{0: "0 keys", 1: "1 key", 2: "2 keys"} {
		if got := Number(n, "key"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
