// Package console opens the pages of the web console in a headless Chromium, on a store that a real kube-apiserver has
// filled: every page in light, in dark and on a phone, and what people do on them.
//
// A page must not log an error, violate its policy, ask another host for anything, or be wider than the window, and
// axe-core (testdata/axe, version 4.4.3, MPL 2.0) must find nothing.
//
//	SQLSTORE_TEST_KEEP   directory for a picture of every page
package console
