package chaos

import (
	"math/rand/v2"
	"time"
)

// concern is what a fault touches. Two faults at the same time must not touch the same thing: one might heal the other.
type concern int

const (
	replicas concern = iota
	nodes
	nothing    // it only reads
	everything // it comes alone
)

// kind is a kind of faults.
type kind struct {
	name    string
	touches concern
	// plan chooses a fault. Everything that it draws at random it draws here, so that the seed determines it.
	plan func(*stage, *rand.Rand) fault
}

// fault is one planned fault.
type fault struct {
	detail string
	inject func() error
	// heal ends the fault; nil if inject does so itself.
	heal  func() error
	holds time.Duration // until it is healed
}

// schedule deals all kinds in random order before it repeats one.
type schedule struct {
	*rand.Rand
	kinds []kind
	deck  []kind
}

// pairPercent is how many percent of the turns have two faults at a time, if two that suit each other are left.
const pairPercent = 30

// next returns the kinds of the next turn: one, or two that touch different things.
func (s *schedule) next() []kind {
	first := s.deal(func(kind) bool { return true })
	turn := []kind{*first}
	if s.IntN(100) < pairPercent && first.touches != everything {
		suits := func(k kind) bool { return k.touches != first.touches && k.touches != everything }
		if second := s.deal(suits); second != nil {
			turn = append(turn, *second)
		}
	}
	return turn
}

// deal takes the first kind off the deck that suits, nil if none does.
func (s *schedule) deal(suits func(kind) bool) *kind {
	if len(s.deck) == 0 {
		s.deck = append(s.deck, s.kinds...)
		s.Shuffle(len(s.deck), func(i, j int) { s.deck[i], s.deck[j] = s.deck[j], s.deck[i] })
	}
	for i, k := range s.deck {
		if suits(k) {
			s.deck = append(s.deck[:i:i], s.deck[i+1:]...)
			return &k
		}
	}
	return nil
}
