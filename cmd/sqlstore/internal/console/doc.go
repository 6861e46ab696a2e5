// Package console serves the web console: pages for people that show what a server holds, what it held, and how it is.
//
// It stands on the HTTP API that any program can use: each page is made of answers of the list/watch API and of
// /status, requested within the process with the credentials of the browser, or as the user of its session. So a user
// sees what a program with the same user would get, and nothing else. The overview adds samples of /metrics, which
// package recent records.
//
// Its guarantees:
//
//  1. It changes nothing, unless that is allowed: then a form of its own pages puts a version back or deletes a key,
//     and only if the newest version is still the one that its user saw.
//  2. Keys and values come from anybody. Pages show them as text, with what is not readable quoted, and run no script
//     but the console's own.
//  3. Pages of other origins can neither frame a page of it nor read one.
//  4. The values of Secrets stay hidden until they are asked for, which is logged.
//  5. A page reads a bounded part of the store. A stream of events waits for a slow browser, and ends with the server.
//  6. A browser logs in with a form, and gets a cookie with the key of a session: package session holds these. No
//     address that the login leads to is outside of the console, and a stream ends with the session of its user.
//  7. What it records of the server takes bounded memory, has no keys or values, and ends with the server.
package console
