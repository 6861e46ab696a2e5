package authn

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/store"
)

// jwtTokens are signed, with the claims that etcd uses: the user, the auth revision of the login, and the end. They end
// only with their time, and with the next change of users or roles.
type jwtTokens struct {
	method jwt.SigningMethod
	sign   any // nil if tokens can only be verified
	verify any
	ttl    time.Duration
	known  known
}

// The options of etcd's setting.
const (
	optionMethod  = "sign-method"
	optionPublic  = "pub-key"
	optionPrivate = "priv-key"
	optionTTL     = "ttl"
)

func newJWT(options map[string]string, log *slog.Logger) (*jwtTokens, error) {
	for _, name := range slices.Sorted(maps.Keys(options)) {
		if !slices.Contains([]string{optionMethod, optionPublic, optionPrivate, optionTTL}, name) {
			log.Warn("jwt has no such option", "option", name)
		}
	}
	t := &jwtTokens{ttl: DefaultTokenTTL, method: jwt.GetSigningMethod(options[optionMethod])}
	if t.method == nil {
		return nil, fmt.Errorf("%w: jwt needs %s to be an algorithm such as RS256, ES256, EdDSA or HS256, not %q",
			ErrTokenSpec, optionMethod, options[optionMethod])
	}
	if text := options[optionTTL]; text != "" {
		ttl, err := time.ParseDuration(text)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrTokenSpec, optionTTL, err)
		}
		t.ttl = ttl
	}
	private, err := readKey(options, optionPrivate)
	if err != nil {
		return nil, err
	}
	public, err := readKey(options, optionPublic)
	if err != nil {
		return nil, err
	}
	if err := t.setKeys(private, public); err != nil {
		return nil, err
	}
	return t, nil
}

// readKey reads the file that an option names; nil if it names none.
func readKey(options map[string]string, option string) ([]byte, error) {
	path := options[option]
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrTokenSpec, option, err)
	}
	return text, nil
}

// setKeys parses the keys of the method; either may be missing, but not both.
func (t *jwtTokens) setKeys(private, public []byte) error {
	switch t.method.(type) {
	case *jwt.SigningMethodRSA, *jwt.SigningMethodRSAPSS:
		return parsePair(t, private, public, jwt.ParseRSAPrivateKeyFromPEM, jwt.ParseRSAPublicKeyFromPEM)
	case *jwt.SigningMethodECDSA:
		return parsePair(t, private, public, jwt.ParseECPrivateKeyFromPEM, jwt.ParseECPublicKeyFromPEM)
	case *jwt.SigningMethodEd25519:
		return parsePair(t, private, public, parseEdPrivate, parseEdPublic)
	case *jwt.SigningMethodHMAC:
		if len(private) == 0 {
			return fmt.Errorf("%w: %s needs a secret in the file of %s", ErrTokenSpec, t.method.Alg(), optionPrivate)
		}
		t.sign, t.verify = private, private
		return nil
	}
	return fmt.Errorf("%w: the method %s signs nothing", ErrTokenSpec, t.method.Alg())
}

func parseEdPrivate(text []byte) (ed25519.PrivateKey, error) {
	key, err := jwt.ParseEdPrivateKeyFromPEM(text)
	if err != nil {
		return nil, err
	}
	return key.(ed25519.PrivateKey), nil
}

func parseEdPublic(text []byte) (ed25519.PublicKey, error) {
	key, err := jwt.ParseEdPublicKeyFromPEM(text)
	if err != nil {
		return nil, err
	}
	return key.(ed25519.PublicKey), nil
}

// publicKey is a public key of the standard library.
type publicKey interface {
	*rsa.PublicKey | *ecdsa.PublicKey | ed25519.PublicKey
	Equal(crypto.PublicKey) bool
}

// parsePair sets the keys of a method with a public and a private one.
func parsePair[S crypto.Signer, P publicKey](
	t *jwtTokens, private, public []byte, parsePrivate func([]byte) (S, error), parsePublic func([]byte) (P, error),
) error {
	if len(private) == 0 && len(public) == 0 {
		return fmt.Errorf("%w: %s needs %s, or %s to verify tokens that others make", ErrTokenSpec, t.method.Alg(),
			optionPrivate, optionPublic)
	}
	if len(private) > 0 {
		key, err := parsePrivate(private)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrTokenSpec, optionPrivate, err)
		}
		t.sign, t.verify = key, key.Public()
	}
	if len(public) > 0 {
		key, err := parsePublic(public)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrTokenSpec, optionPublic, err)
		}
		if t.verify != nil && !key.Equal(t.verify) {
			return fmt.Errorf("%w: %s is not the public half of %s", ErrTokenSpec, optionPublic, optionPrivate)
		}
		t.verify = key
	}
	return nil
}

func (t *jwtTokens) String() string { return kindJWT + " " + t.method.Alg() }

// ErrVerifyOnly is returned for a login where tokens can only be verified. Its text is etcd's.
var ErrVerifyOnly = errors.New("auth: token signing attempted with verify-only key")

// The claims of a token.
const (
	claimUser     = "username"
	claimRevision = "revision"
	claimEnd      = "exp"
)

func (t *jwtTokens) make(_ context.Context, _ *store.Store, user string, revision uint64) (string, error) {
	if t.sign == nil {
		return "", ErrVerifyOnly
	}
	token := jwt.NewWithClaims(t.method, jwt.MapClaims{
		claimUser: user, claimRevision: revision, claimEnd: time.Now().Add(t.ttl).Unix(),
	})
	return token.SignedString(t.sign)
}

func (t *jwtTokens) identify(_ context.Context, _ *store.Store, token string) (auth.Identity, error) {
	if id, ok := t.known.get(token, time.Now()); ok {
		return id, nil
	}
	parsed, err := jwt.Parse(token, func(*jwt.Token) (any, error) { return t.verify, nil },
		jwt.WithValidMethods([]string{t.method.Alg()}))
	if err != nil {
		return auth.Identity{}, fmt.Errorf("%w: %w", auth.ErrInvalidToken, err)
	}
	claims, _ := parsed.Claims.(jwt.MapClaims)
	user, named := claims[claimUser].(string)
	revision, dated := claims[claimRevision].(float64)
	if !named || !dated || revision < 0 {
		return auth.Identity{}, fmt.Errorf("%w: it lacks the claims %s", auth.ErrInvalidToken,
			strings.Join([]string{claimUser, claimRevision}, " and "))
	}
	id := auth.BySignature(user, uint64(revision))
	var end time.Time
	if at, err := claims.GetExpirationTime(); err == nil && at != nil {
		end = at.Time
	}
	t.known.add(token, id, end)
	return id, nil
}

// mostKnown is the number of verified tokens that are remembered.
const mostKnown = 1024

// known remembers verified tokens: to verify a signature takes longer than all other checks of a call.
type known struct {
	mu sync.RWMutex
	by map[string]verified
}

type verified struct {
	id  auth.Identity
	end time.Time // zero if it has none
}

func (k *known) get(token string, now time.Time) (auth.Identity, bool) {
	k.mu.RLock()
	v, ok := k.by[token]
	k.mu.RUnlock()
	if !ok || !v.end.IsZero() && !now.Before(v.end) {
		return auth.Identity{}, false
	}
	return v.id, true
}

func (k *known) add(token string, id auth.Identity, end time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.by) >= mostKnown || k.by == nil {
		k.by = map[string]verified{}
	}
	k.by[token] = verified{id, end}
}
