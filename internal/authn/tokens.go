package authn

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/sqlstore/sqlstore/internal/auth"
	"github.com/sqlstore/sqlstore/internal/store"
)

// ErrTokenSpec is returned for unusable settings of tokens.
var ErrTokenSpec = errors.New("authn: bad token settings")

// The kinds of tokens, by the words of etcd's setting.
const (
	kindSimple = "simple"
	kindJWT    = "jwt"
)

// DefaultTokenTTL is how long a simple token lives after its last use, and a JWT after its making.
const DefaultTokenTTL = 5 * time.Minute

// Tokens makes tokens for users whose password was correct, and finds the users of tokens.
type Tokens interface {
	// make returns a token for a user, whose password was correct at an auth revision.
	make(ctx context.Context, s *store.Store, user string, revision uint64) (string, error)
	// identify returns who calls with a token. Errors: [auth.ErrInvalidToken].
	identify(ctx context.Context, s *store.Store, token string) (auth.Identity, error)
	// String describes them, without secrets.
	String() string
}

// ParseTokens parses etcd's setting: "simple", or "jwt" with options. ttl is the life of a simple token, 0 for the
// default. It reads the files of keys. Like etcd,
// it only warns of unknown options. Errors: [ErrTokenSpec].
func ParseTokens(spec string, ttl time.Duration, log *slog.Logger) (Tokens, error) {
	kind, options, err := splitSpec(spec)
	if err != nil {
		return nil, err
	}
	switch kind {
	case kindSimple:
		if ttl <= 0 {
			ttl = DefaultTokenTTL
		}
		return simpleTokens{ttl}, nil
	case kindJWT:
		return newJWT(options, log)
	}
	return nil, fmt.Errorf("%w: the kind of token is %q, not simple or jwt", ErrTokenSpec, kind)
}

// splitSpec splits "kind,option=value,option=value".
func splitSpec(spec string) (kind string, options map[string]string, err error) {
	kind, rest, more := strings.Cut(spec, ",")
	options = map[string]string{}
	for more {
		var option string
		option, rest, more = strings.Cut(rest, ",")
		name, value, ok := strings.Cut(option, "=")
		if !ok || strings.Contains(value, "=") {
			return "", nil, fmt.Errorf("%w: the option %q is not of the form name=value", ErrTokenSpec, option)
		}
		if _, twice := options[name]; twice {
			return "", nil, fmt.Errorf("%w: the option %q is given twice", ErrTokenSpec, name)
		}
		options[name] = value
	}
	return kind, options, nil
}

// simpleTokens are random and kept in the database, so that every server of it knows them.
type simpleTokens struct{ ttl time.Duration }

func (t simpleTokens) String() string { return kindSimple }

// simpleLetters is the number of random letters in a token, as in etcd: 91 bits.
const simpleLetters = 16

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

func (t simpleTokens) make(ctx context.Context, s *store.Store, user string, revision uint64) (string, error) {
	b := make([]byte, 0, simpleLetters+8)
	for range simpleLetters {
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(letters))))
		if err != nil {
			return "", fmt.Errorf("make a token: %w", err)
		}
		b = append(b, letters[n.Int64()])
	}
	// etcd appends an index of its log; clients do not interpret it.
	token := string(strconv.AppendInt(append(b, '.'), s.Revision(), 10))
	if err := s.AddToken(ctx, token, user, revision, t.ttl); err != nil {
		return "", err
	}
	return token, nil
}

func (t simpleTokens) identify(ctx context.Context, s *store.Store, token string) (auth.Identity, error) {
	if !simple(token) {
		return auth.Identity{}, auth.ErrInvalidToken // spares the database
	}
	return s.TokenUser(ctx, token)
}

// simple reports whether a text has the form of a simple token.
func simple(token string) bool {
	if len(token) < simpleLetters+2 || len(token) > simpleLetters+21 || token[simpleLetters] != '.' {
		return false
	}
	for i := range simpleLetters {
		if c := token[i] | 0x20; c < 'a' || c > 'z' {
			return false
		}
	}
	for _, c := range []byte(token[simpleLetters+1:]) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
