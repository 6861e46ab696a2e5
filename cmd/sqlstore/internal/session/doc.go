// Package session holds the sessions of users who have logged in to the web console.
//
// Its guarantees:
//
//  1. A session has a new random key of 130 bits. A table holds only the hashes of keys, so it tells nobody a key, and
//     looking one up takes no time that depends on how much of a guess is right.
//  2. It holds who the user is and when that was checked, but no password: the engine finds out with each call whether
//     the identity has ended since.
//  3. It ends after [Idle] without use, after [Longest] in any case, when somebody ends it, and with the context of its
//     table. Then its own context ends.
//  4. A table has at most [MostOfUser] sessions of a user, and [Most] in total. A new one ends the one that was not
//     used for longest, of its user first: one user cannot log out the others.
package session
