package store

import "testing"

func TestPrefixEnd(t *testing.T) {
	for prefix, want := range map[string]string{
		"": "\x00", "a": "b", "a/": "a0", "a\xff": "b", "a\xff\xff": "b", "\xff": "\x00", "\xff\xff": "\x00",
		"\xfe": "\xff",
	} {
		given := []byte(prefix)
		if got := string(PrefixEnd(given)); got != want || string(given) != prefix {
			t.Errorf("%q: %q, want %q; the prefix became %q", prefix, got, want, given)
		}
	}
}
