package authn

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sqlstore/sqlstore/internal/auth"
)

// keyPair writes the files of a key and returns their paths.
func keyPair(t *testing.T, key crypto.Signer) (private, public string) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	private = writeFile(t, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	if der, err = x509.MarshalPKIXPublicKey(key.Public()); err != nil {
		t.Fatal(err)
	}
	return private, writeFile(t, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func writeFile(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func parse(t *testing.T, spec string) Tokens {
	t.Helper()
	tokens, err := ParseTokens(spec, 0, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	return tokens
}

func generate[K any](t *testing.T, f func() (K, error)) K {
	t.Helper()
	key, err := f()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newRSA(t *testing.T) crypto.Signer {
	return generate(t, func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })
}

func newEC(t *testing.T) crypto.Signer {
	return generate(t, func() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) })
}

func newEd(t *testing.T) crypto.Signer {
	return generate(t, func() (ed25519.PrivateKey, error) {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	})
}

// Each kind of key makes tokens that name the user and the revision, and its public half verifies them elsewhere.
func TestJWT(t *testing.T) {
	ctx := t.Context()
	for method, newKey := range map[string]func(*testing.T) crypto.Signer{
		"RS256": newRSA, "RS512": newRSA, "PS256": newRSA, "ES256": newEC, "EdDSA": newEd,
	} {
		t.Run(method, func(t *testing.T) {
			private, public := keyPair(t, newKey(t))
			maker := parse(t, fmt.Sprintf("jwt,pub-key=%s,priv-key=%s,sign-method=%s,ttl=1h", public, private, method))
			token, err := maker.make(ctx, nil, "alice", 7)
			if err != nil {
				t.Fatal(err)
			}
			verifier := parse(t, fmt.Sprintf("jwt,pub-key=%s,sign-method=%s", public, method))
			for name, tokens := range map[string]Tokens{
				"both keys": maker, "private key": parse(t, "jwt,priv-key="+private+",sign-method="+method),
				"public key": verifier,
			} {
				for range 2 { // verified, and remembered
					if id, err := tokens.identify(ctx, nil, token); err != nil || id != auth.BySignature("alice", 7) {
						t.Errorf("%s: %v, %v", name, id, err)
					}
				}
			}
			if _, err := verifier.make(ctx, nil, "alice", 7); !errors.Is(err, ErrVerifyOnly) {
				t.Errorf("made with a public key: %v", err)
			}
			_, other := keyPair(t, newKey(t))
			stranger := parse(t, fmt.Sprintf("jwt,pub-key=%s,sign-method=%s", other, method))
			for _, wrong := range []string{token[:len(token)-4] + "AAAA", token + "x", "x", ""} {
				if _, err := verifier.identify(ctx, nil, wrong); !errors.Is(err, auth.ErrInvalidToken) {
					t.Errorf("%q: %v", wrong, err)
				}
			}
			if _, err := stranger.identify(ctx, nil, token); !errors.Is(err, auth.ErrInvalidToken) {
				t.Errorf("verified with another key: %v", err)
			}
			mixed := fmt.Sprintf("jwt,pub-key=%s,priv-key=%s,sign-method=%s", other, private, method)
			if _, err := ParseTokens(mixed, 0, slog.Default()); !errors.Is(err, ErrTokenSpec) {
				t.Errorf("keys that do not match: %v", err)
			}
		})
	}
}

func TestJWTWithSecret(t *testing.T) {
	tokens := parse(t, "jwt,priv-key="+writeFile(t, []byte("a shared secret"))+",sign-method=HS256,ttl=1s")
	token, err := tokens.make(t.Context(), nil, "bob", 3)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := tokens.identify(t.Context(), nil, token); err != nil || id != auth.BySignature("bob", 3) {
		t.Fatal(id, err)
	}
	var k known
	k.add(token, auth.BySignature("bob", 3), time.Now().Add(-time.Second))
	if _, ok := k.get(token, time.Now()); ok {
		t.Error("a remembered token outlives its end")
	}
}

// Tokens that others sign with the right key, and that lack a claim or have the wrong method, are no tokens.
func TestJWTClaims(t *testing.T) {
	secret := []byte("secret")
	tokens := parse(t, "jwt,priv-key="+writeFile(t, secret)+",sign-method=HS256")
	for name, c := range map[string]struct {
		method jwt.SigningMethod
		key    any
		claims jwt.MapClaims
	}{
		"no user":      {jwt.SigningMethodHS256, secret, jwt.MapClaims{"revision": 1}},
		"no revision":  {jwt.SigningMethodHS256, secret, jwt.MapClaims{"username": "a"}},
		"number":       {jwt.SigningMethodHS256, secret, jwt.MapClaims{"username": 1, "revision": 1}},
		"negative":     {jwt.SigningMethodHS256, secret, jwt.MapClaims{"username": "a", "revision": -1}},
		"ended":        {jwt.SigningMethodHS256, secret, jwt.MapClaims{"username": "a", "revision": 1, "exp": 1}},
		"other method": {jwt.SigningMethodHS384, secret, jwt.MapClaims{"username": "a", "revision": 1}},
		"unsigned": {
			jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType,
			jwt.MapClaims{"username": "a", "revision": 1},
		},
	} {
		token, err := jwt.NewWithClaims(c.method, c.claims).SignedString(c.key)
		if err != nil {
			t.Fatal(name, err)
		}
		if id, err := tokens.identify(t.Context(), nil, token); !errors.Is(err, auth.ErrInvalidToken) {
			t.Errorf("%s: %v, %v", name, id, err)
		}
	}
}

func TestBadTokenSettings(t *testing.T) {
	secret := writeFile(t, []byte("secret"))
	rsaPrivate, rsaPublic := keyPair(t, newRSA(t))
	for _, spec := range []string{
		"", "other", "jwt", "jwt,sign-method=XX", "jwt,sign-method=none,priv-key=" + secret, "jwt,sign-method=HS256",
		"jwt,sign-method=RS256", "jwt,sign-method=RS256,priv-key=" + secret,
		"jwt,sign-method=ES256,pub-key=" + rsaPublic,
		"jwt,sign-method=EdDSA,priv-key=" + rsaPrivate, "jwt,sign-method=HS256,priv-key=" + secret + ",ttl=x",
		"jwt,sign-method=HS256,priv-key=/does/not/exist", "jwt,sign-method", "jwt,sign-method=HS256,sign-method=HS256",
		"jwt,a=b=c", "simple,x",
	} {
		if _, err := ParseTokens(spec, 0, slog.New(slog.DiscardHandler)); !errors.Is(err, ErrTokenSpec) {
			t.Errorf("%q: %v", spec, err)
		}
	}
	for _, spec := range []string{"simple", "simple,x=y", "jwt,sign-method=HS256,other=x,priv-key=" + secret} {
		parse(t, spec)
	}
}

func TestFormOfSimpleTokens(t *testing.T) {
	for token, want := range map[string]bool{
		"abcdefghijKLMNOP.12": true, "abcdefghijKLMNOP.": false, "abcdefghijKLMNO1.2": false,
		"abcdefghijKLMNOP.x": false,
		"":                   false, ".1": false, "abcdefghijKLMNOPQ.1": false,
	} {
		if simple(token) != want {
			t.Errorf("%q: %v", token, !want)
		}
	}
}
