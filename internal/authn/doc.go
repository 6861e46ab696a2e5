// Package authn answers who calls: it checks passwords and makes and checks the tokens that stand for them. What a user
// may do is in package auth, and the engine enforces it.
//
// Its guarantees:
//
//  1. Passwords leave this package only as bcrypt hashes, and none is logged.
//  2. A wrong password and an unknown user take the same time.
//  3. Failed attempts are limited per user and per address, in bounded memory; see [Throttle].
//  4. A token that identifies its user here may have ended elsewhere: the engine checks that with the rights, on the
//     state of the users that the request must have seen.
package authn
