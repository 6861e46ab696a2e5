package authn

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// attempt tries a login and returns how long it had to wait.
func attempt(t *testing.T, x *Throttle, user, from string, succeeds bool) (time.Duration, error) {
	t.Helper()
	began := time.Now()
	end, err := x.Begin(t.Context(), user, from)
	if err == nil {
		outcome := Failed
		if succeeds {
			outcome = Succeeded
		}
		end(outcome)
	}
	return time.Since(began), err
}

// Somebody who guesses passwords one after the other soon gets two per second, and nobody else notices.
func TestGuessingIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := NewThrottle()
		began := time.Now()
		const tries = 120
		for range tries {
			if _, err := attempt(t, x, "root", "10.0.0.1:1000", false); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took < (tries-20-1)*time.Second/2 {
			t.Errorf("%d guesses took only %s", tries, took)
		}
		for _, other := range []struct{ user, from string }{
			{"root", "10.0.0.2:1"}, {"alice", "10.0.0.1:1"},
		} {
			if waited, err := attempt(t, x, other.user, other.from, true); waited > 0 || err != nil {
				t.Errorf("%s from %s waited %s: %v", other.user, other.from, waited, err)
			}
		}
	})
}

// Those who guess many at a time are refused.
func TestGuessingManyAtOnceIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := NewThrottle()
		results := make(chan error, 500)
		for i := range cap(results) {
			go func() {
				_, err := attempt(t, x, "root", fmt.Sprintf("10.0.0.1:%d", i+1), false)
				results <- err
			}()
		}
		refused := 0
		for range cap(results) {
			if errors.Is(<-results, ErrThrottled) {
				refused++
			}
		}
		if refused < 400 {
			t.Errorf("%d of 500 refused", refused)
		}
	})
}

// One address cannot try one password with each of many users.
func TestAddressIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := NewThrottle()
		began := time.Now()
		for i := range 180 {
			if _, err := attempt(t, x, fmt.Sprint("user", i), "[2001:db8::1]:99", false); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took < 19*time.Second {
			t.Errorf("180 guesses took only %s", took)
		}
		if waited, _ := attempt(t, x, "somebody", "[2001:db8:0:0:ffff::2]:5", false); waited == 0 {
			t.Error("another address of the same network did not wait")
		}
		if waited, _ := attempt(t, x, "somebody", "[2001:db8:1::1]:5", false); waited > 0 {
			t.Error("another network waited")
		}
	})
}

// Guessing a user's password from many addresses is slow, too, but does not lock out the user.
func TestUserIsLimitedAndNotLockedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := NewThrottle()
		const home = "192.0.2.1:7"
		if _, err := attempt(t, x, "root", home, true); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for i := range 400 {
			if _, err := attempt(t, x, "root", fmt.Sprintf("10.0.%d.%d:1", i/250, i%250), false); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took < 9*time.Second {
			t.Errorf("400 guesses took only %s", took)
		}
		if waited, err := attempt(t, x, "root", home, true); waited > 0 || err != nil {
			t.Errorf("the user waited %s: %v", waited, err)
		}
	})
}

// Logins that succeed do not count.
func TestSuccessIsNotLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := NewThrottle()
		for range 10_000 {
			if waited, err := attempt(t, x, "root", "10.0.0.1:1", true); waited > 0 || err != nil {
				t.Fatalf("waited %s: %v", waited, err)
			}
		}
	})
}

// However many users and addresses are tried, the memory is bounded.
func TestThrottleIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := NewThrottle()
		for i := range 3 * mostCounted {
			from := fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255)
			if _, err := attempt(t, x, fmt.Sprint(i), from, i%2 == 0); err != nil {
				t.Fatal(err)
			}
		}
		for name, n := range map[string]int{
			"pairs": len(x.pairs.by), "addresses": len(x.addresses.by), "users": len(x.users.by),
			"trusted": len(x.trusted),
		} {
			if n > mostCounted {
				t.Errorf("%d %s", n, name)
			}
		}
	})
}

// Giving up the wait is no way around it.
func TestGivingUpGainsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := NewThrottle()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		tried := 0
		for range 1000 {
			if end, err := x.Begin(ctx, "root", "10.0.0.1:1"); err == nil {
				end(Failed)
				tried++
			}
		}
		if tried != 20 {
			t.Errorf("%d guesses at once", tried)
		}
		if waited, err := attempt(t, x, "root", "10.0.0.1:1", false); waited != time.Second/2 || err != nil {
			t.Errorf("waited %s: %v", waited, err)
		}
	})
}

// Any number of clients may log in at once from one address, also if that takes the server longer than a login may wait
// for the failures of others.
func TestManySucceedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := NewThrottle()
		results := make(chan error, mostOfAddress)
		for range cap(results) {
			go func() {
				end, err := x.Begin(t.Context(), "root", "10.0.0.1:1")
				if err == nil {
					time.Sleep(time.Second) // the hash of the password
					end(Succeeded)
				}
				results <- err
			}()
		}
		for range cap(results) {
			if err := <-results; err != nil {
				t.Fatal(err)
			}
		}
		if len(x.waiting) > 0 {
			t.Errorf("%d still wait", len(x.waiting))
		}
	})
}

// Guesses that have not failed yet count like those that have.
func TestGuessesUnderWayCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := NewThrottle()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for range 20 {
			if _, err := x.Begin(ctx, "root", "10.0.0.1:1"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := x.Begin(ctx, "root", "10.0.0.1:1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the 21st at once: %v", err)
		}
	})
}

// The number of logins that wait is bounded for each address, and nobody else notices that.
func TestWaitingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := NewThrottle()
		ctx, cancel := context.WithCancel(t.Context())
		var ends []func(Outcome)
		for range 20 {
			end, err := x.Begin(ctx, "root", "10.0.0.1:1")
			if err != nil {
				t.Fatal(err)
			}
			ends = append(ends, end)
		}
		results := make(chan error, mostOfAddress+10)
		for range cap(results) {
			go func() {
				_, err := x.Begin(ctx, "root", "10.0.0.1:1")
				results <- err
			}()
		}
		synctest.Wait()
		refused := 0
		for len(results) > 0 {
			if errors.Is(<-results, ErrThrottled) {
				refused++
			}
		}
		if refused != 10 || len(x.waiting) != mostOfAddress {
			t.Errorf("%d refused at once, %d wait", refused, len(x.waiting))
		}
		other := make(chan error, 40)
		for range cap(other) {
			go func() {
				end, err := x.Begin(t.Context(), "alice", "10.0.0.2:1")
				if err == nil {
					end(Succeeded)
				}
				other <- err
			}()
		}
		for range cap(other) {
			if err := <-other; err != nil {
				t.Errorf("another address: %v", err)
			}
		}
		cancel()
		synctest.Wait()
		for _, end := range ends {
			end(Abandoned)
		}
		if len(x.waiting) > 0 || len(x.from) > 0 || x.underWay != 0 {
			t.Errorf("%d wait after their ends, from %d addresses; %d are under way", len(x.waiting), len(x.from),
				x.underWay)
		}
		if waited, err := attempt(t, x, "root", "10.0.0.1:1", true); waited > 0 || err != nil {
			t.Errorf("after logins that compared no password: waited %s, %v", waited, err)
		}
	})
}

// However many logins are under way from however many addresses, the memory and the time to look at them are bounded.
func TestManyUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := NewThrottle()
		ctx, cancel := context.WithCancel(t.Context())
		const all = mostCounted + 500
		admitted, refused := make(chan func(Outcome), all), make(chan error, all)
		for i := range all {
			go func() {
				end, err := x.Begin(ctx, fmt.Sprint(i), fmt.Sprintf("[2001:db8:%x:%x::1]:1", i/1000, i%1000))
				if err != nil {
					refused <- err
					return
				}
				admitted <- end
			}()
		}
		synctest.Wait()
		if len(admitted) != mostCounted || len(x.waiting) != 500 {
			t.Errorf("%d are under way, %d wait", len(admitted), len(x.waiting))
		}
		for _, n := range []int{len(x.pairs.by), len(x.addresses.by), len(x.users.by)} {
			if n > mostCounted {
				t.Errorf("%d counted", n)
			}
		}
		for range mostCounted {
			(<-admitted)(Failed)
		}
		synctest.Wait()
		if len(admitted) != 500 || len(refused) > 0 {
			t.Errorf("%d of those that waited are under way, %d refused", len(admitted), len(refused))
		}
		for range 500 {
			(<-admitted)(Abandoned)
		}
		cancel()
	})
}
