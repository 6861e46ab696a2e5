package console_test

import (
	"net/http"
	"testing"
)

// Who has not signed in cannot use up the streams of those who have.
func TestStreamsOfStrangers(t *testing.T) {
	t.Parallel()
	s := serve(t)
	open := func(headers ...string) (code int) {
		answer := s.send(http.MethodGet, "/live", nil, headers...)
		t.Cleanup(func() { _ = answer.Body.Close() })
		return answer.StatusCode
	}
	for range 9 { // nobody is a stranger yet
		if code := open(); code != http.StatusOK {
			t.Fatal(code)
		}
	}
	s.users()
	mine := s.signIn()
	for range 8 {
		if code := open(); code != http.StatusOK {
			t.Fatal(code)
		}
	}
	if code := open(); code != http.StatusServiceUnavailable {
		t.Errorf("one more for a stranger: %d", code)
	}
	for _, header := range []string{mine, alice} {
		if code := open(header); code != http.StatusOK {
			t.Errorf("%s: %d", header, code)
		}
	}
}

// Wrong credentials are refused before they wait for what others use.
func TestWrongCredentialsHoldNoSlot(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.users()
	free := s.console.Occupy()
	s.get("/browse?prefix=/a/", "Authorization: Basic YWxpY2U6d3Jvbmc=").want(401)
	s.get("/", "Authorization: Basic YWxpY2U6d3Jvbmc=").want(401)
	free()
	s.get("/browse?prefix=/a/", alice).want(200, "<bdi>alice</bdi>")
}

// A page of changes leads to the login, too.
func TestWatchNeedsRights(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.put("/a/1", "x")
	s.users()
	s.once("GET", "/watch?prefix=/a/", nil, navigate).leads("/login?next=%2Fwatch%3Fprefix%3D%252Fa%252F")
	mine := s.signIn()
	s.get("/watch?prefix=/a/", mine).want(200)
	s.get("/watch?prefix=/a/1", mine).want(200)
	s.get("/watch?prefix=/a/none", mine).want(200)
	s.get("/watch?prefix=/b/", mine).want(403)
	s.get("/watch?prefix=/b", mine).want(403)
}
