package authn

import (
	"context"
	"fmt"
	"runtime"

	"golang.org/x/crypto/bcrypt"
)

// DefaultCost is the default cost of a bcrypt hash.
const DefaultCost = bcrypt.DefaultCost

// ValidCost reports whether bcrypt accepts a cost.
func ValidCost(cost int) bool { return cost >= bcrypt.MinCost && cost <= bcrypt.MaxCost }

// CostRange describes the costs that bcrypt accepts.
func CostRange() string { return fmt.Sprintf("%d to %d", bcrypt.MinCost, bcrypt.MaxCost) }

// Passwords makes and compares bcrypt hashes. Each takes tens of milliseconds of a processor, so only some run at a
// time.
type Passwords struct {
	cost  int
	slots chan struct{}
}

// NewPasswords returns hashes of the given cost, which must be valid.
func NewPasswords(cost int) *Passwords {
	return &Passwords{cost: cost, slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
}

// Hash returns the hash to store for a password. Errors: the end of ctx, those of bcrypt.
func (p *Passwords) Hash(ctx context.Context, password string) (hash []byte, err error) {
	if err := p.acquire(ctx); err != nil {
		return nil, err
	}
	defer p.release()
	return bcrypt.GenerateFromPassword([]byte(password), p.cost)
}

// Match reports whether a password has the hash. It fails only at the end of ctx.
func (p *Passwords) Match(ctx context.Context, hash []byte, password string) (bool, error) {
	if err := p.acquire(ctx); err != nil {
		return false, err
	}
	defer p.release()
	return bcrypt.CompareHashAndPassword(hash, []byte(password)) == nil, nil
}

// MatchUnknown takes as long as Match with a hash of the given cost, for users who do not exist; 0 is the cost of new
// hashes.
func (p *Passwords) MatchUnknown(ctx context.Context, cost int, password string) error {
	if cost == 0 {
		cost = p.cost
	}
	_, err := p.Match(ctx, unknownHash(cost), password)
	return err
}

// unknownHash returns a hash with a salt, of no known password.
func unknownHash(cost int) []byte {
	const salt, hash = "sqlstoresqlstoresqlstO", "sqlstoresqlstoresqlstoresqlstoO"
	return fmt.Appendf(nil, "$2a$%02d$%s%s", cost, salt, hash)
}

// cost returns the cost of a hash, 0 if it is none.
func cost(hash []byte) int {
	n, err := bcrypt.Cost(hash)
	if err != nil {
		return 0
	}
	return n
}

func (p *Passwords) acquire(ctx context.Context) error {
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *Passwords) release() { <-p.slots }
