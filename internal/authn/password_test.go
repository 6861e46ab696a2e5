package authn

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"
)

func TestPasswords(t *testing.T) {
	p := NewPasswords(bcrypt.MinCost)
	hash, err := p.Hash(t.Context(), "secret")
	if err != nil {
		t.Fatal(err)
	}
	if cost(hash) != bcrypt.MinCost || strings.Contains(string(hash), "secret") {
		t.Errorf("hash %s", hash)
	}
	for password, want := range map[string]bool{"secret": true, "Secret": false, "": false} {
		if same, err := p.Match(t.Context(), hash, password); same != want || err != nil {
			t.Errorf("%q: %v, %v", password, same, err)
		}
	}
	if _, err := p.Hash(t.Context(), strings.Repeat("x", 73)); !errors.Is(err, bcrypt.ErrPasswordTooLong) {
		t.Errorf("a password that is too long: %v", err)
	}
	for _, malformed := range []string{"", "secret", "$2a$"} {
		if same, err := p.Match(t.Context(), []byte(malformed), "secret"); same || err != nil {
			t.Errorf("%q: %v, %v", malformed, same, err)
		}
		if cost([]byte(malformed)) != 0 {
			t.Errorf("%q has a cost", malformed)
		}
	}
}

// bcrypt really runs for users who do not exist, with the cost of those who do: a hash that it finds malformed would be
// refused at once.
func TestUnknownUserTakesAsLongAsKnown(t *testing.T) {
	for _, c := range []int{bcrypt.MinCost, 7} {
		dummy := unknownHash(c)
		if got, err := bcrypt.Cost(dummy); got != c || err != nil {
			t.Errorf("cost %d: %d, %v", c, got, err)
		}
		if err := bcrypt.CompareHashAndPassword(dummy, []byte("x")); !errors.Is(err,
			bcrypt.ErrMismatchedHashAndPassword) {
			t.Errorf("cost %d: %v", c, err)
		}
	}
	p := NewPasswords(bcrypt.MinCost)
	if same, err := p.Match(t.Context(), unknownHash(bcrypt.MinCost), "x"); same || err != nil {
		t.Error(same, err)
	}
	if err := p.MatchUnknown(t.Context(), 0, "x"); err != nil {
		t.Error(err)
	}
}
