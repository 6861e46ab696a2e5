package paging

import (
	"bytes"
	"crypto/cipher"
	"encoding/base64"
	"math"
	"strings"
	"testing"

	"golang.org/x/crypto/chacha20poly1305"
)

func aead(tb testing.TB, key []byte) cipher.AEAD {
	tb.Helper()
	c, err := chacha20poly1305.NewX(key)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

var testKey = bytes.Repeat([]byte{7}, chacha20poly1305.KeySize)

// decode decodes a token as a list does, with one key that has the id 3.
func decode(tb testing.TB, token, prefix string) (place, bool) {
	tb.Helper()
	s, ok := parse(token)
	if !ok || s.id != 3 {
		return place{}, false
	}
	return s.open(aead(tb, testKey), prefix)
}

func TestTokenRoundTrip(t *testing.T) {
	for _, prefix := range []string{"", "/", "/registry/pods/", "\xff", "\x00", "a/../b/", strings.Repeat("x", 3000)} {
		for _, start := range []string{
			"\x00", "nginx\x00", "../..\x00", "\xff\xfe\x00",
			strings.Repeat("y", 3000) + "\x00", "",
		} {
			for _, p := range []place{
				{epoch: 1, revision: 5, rest: 12, start: start},
				{revision: latest, rest: unknown, start: start},
				{epoch: math.MaxInt64, revision: math.MaxInt64, rest: math.MaxInt64, start: start},
			} {
				token := seal(3, aead(t, testKey), prefix, p)
				if got, ok := decode(t, token, prefix); !ok || got != p {
					t.Fatalf("%+v decoded as %+v, %t", p, got, ok)
				}
				if token == seal(3, aead(t, testKey), prefix, p) {
					t.Error("two equal tokens: the nonce is not random")
				}
				if strings.Trim(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
					t.Errorf("a URL cannot take %q", token)
				}
				// Two bytes stand somewhere in one of fifty random tokens.
				if len(start) > 4 && strings.Contains(decoded(t, token), start[:len(start)-1]) {
					t.Errorf("%q shows its start key", token)
				}
			}
		}
	}
}

func decoded(tb testing.TB, token string) string {
	tb.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		tb.Fatal(err)
	}
	return string(raw)
}

// TestTokenTampered changes every bit of a token, every character, its length, its list, its key and the key's id.
func TestTokenTampered(t *testing.T) {
	const prefix = "/registry/secrets/"
	key := aead(t, testKey)
	token := seal(3, key, prefix, place{epoch: 1, revision: 5, rest: 1, start: "default/password\x00"})
	refused := func(what, token, prefix string) {
		t.Helper()
		if p, ok := decode(t, token, prefix); ok {
			t.Errorf("%s: opened as %+v", what, p)
		}
	}
	raw := []byte(decoded(t, token))
	for i := range raw {
		for bit := range 8 {
			raw[i] ^= 1 << bit
			refused("a flipped bit", base64.RawURLEncoding.EncodeToString(raw), prefix)
			raw[i] ^= 1 << bit
		}
	}
	for i := range token {
		for _, c := range []string{"A", "_", "=", "\n", "\r", "+", "/", "", "%"} {
			if changed := token[:i] + c + token[i+1:]; changed != token {
				refused("a changed character", changed, prefix)
			}
		}
		refused("cut off", token[:i], prefix)
		refused("a line break", token[:i]+"\n"+token[i:], prefix)
	}
	for last := range 256 { // bits after the last byte
		if changed := token[:len(token)-1] + string(rune(last)); changed != token {
			refused("another end", changed, prefix)
		}
	}
	for _, c := range []string{"A", "AA", "AAAA", "=", "==", "\n", token} {
		refused("with a suffix", token+c, prefix)
		refused("something before it", c+token, prefix)
	}
	for _, other := range []string{
		"", "/", "/registry/", "/registry/secrets", "/registry/secrets/default/",
		"/registry/secretz/", prefix + "\x00",
	} {
		refused("another list", token, other)
	}
	for version := range 256 {
		if raw[0] = byte(version); version != tokenVersion {
			refused("another version", base64.RawURLEncoding.EncodeToString(raw), prefix)
		}
	}
	refused("another id", seal(4, key, prefix, place{revision: 5}), prefix)
	refused("another key", seal(3, aead(t, bytes.Repeat([]byte{8}, 32)), prefix, place{revision: 5}), prefix)
	refused("a revision that is none", seal(3, key, prefix, place{revision: -1}), prefix)
}

// FuzzToken opens arbitrary bytes, which neither succeeds nor panics, and changes sealed tokens.
func FuzzToken(f *testing.F) {
	// With another key: the fuzzer passes one process's tokens to others, which must not open them.
	foreign := seal(3, aead(f, bytes.Repeat([]byte{8}, 32)), "/p/", place{
		epoch: 1, revision: 5, rest: 1,
		start: "a\x00",
	})
	f.Add(foreign, "/p/", "a\x00", int64(5), int64(1), uint16(9))
	f.Add("", "", "", int64(0), int64(-1), uint16(0))
	f.Add(foreign+"\n", "/p/", "\xff", int64(math.MaxInt64), int64(math.MaxInt64), uint16(math.MaxUint16))
	f.Add(base64.RawURLEncoding.EncodeToString(make([]byte, tokenLeast)), "", "", int64(1), int64(0), uint16(300))
	f.Fuzz(func(t *testing.T, arbitrary, prefix, start string, revision, rest int64, flip uint16) {
		for _, token := range []string{arbitrary, base64.RawURLEncoding.EncodeToString([]byte(arbitrary))} {
			if p, ok := decode(t, token, prefix); ok {
				t.Fatalf("%q opens as %+v", token, p)
			}
		}
		want := place{epoch: revision / 2, revision: revision & math.MaxInt64, rest: rest, start: start}
		token := seal(3, aead(t, testKey), prefix, want)
		if p, ok := decode(t, token, prefix); !ok || p != want {
			t.Fatalf("%+v decodes as %+v, %t", want, p, ok)
		}
		if p, ok := decode(t, token, prefix+"x"); ok {
			t.Fatalf("opens for another list as %+v", p)
		}
		raw := []byte(decoded(t, token))
		raw[int(flip/8)%len(raw)] ^= 1 << (flip % 8)
		if p, ok := decode(t, base64.RawURLEncoding.EncodeToString(raw), prefix); ok {
			t.Fatalf("opens with bit %d changed as %+v", flip, p)
		}
	})
}
