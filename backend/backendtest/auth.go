package backendtest

import (
	"context"
	"fmt"
	"time"

	"github.com/sqlstore/sqlstore/backend"
)

// testAuth changes users and roles, and reads them back as they were given: with names and keys that are no text, with
// permissions in their order, and with long names.
func testAuth(f *fixture) {
	f.checkAuth(backend.Auth{Revision: 1})
	long := string(make([]byte, 5000))
	users := []backend.AuthUser{
		{Name: "a\x00\u00ff", Hash: []byte{0, 0xff}, Roles: []string{"r\x00", "root"}, TokensFrom: 2},
		{Name: "b", NoPassword: true, TokensFrom: 3},
		{Name: "c", Hash: []byte{}, TokensFrom: 4},
	}
	roles := []backend.AuthRole{
		{Name: "empty"},
		{Name: "r\x00", Permissions: []backend.AuthPermission{
			{Kind: backend.AuthReadWrite, Key: []byte("k\xff"), End: []byte{0}},
			{Kind: backend.AuthRead, Key: []byte("k\xff"), End: []byte{}},
			{Kind: backend.AuthWrite, Key: []byte("a"), End: []byte("b")},
			{Kind: backend.AuthWrite, Key: []byte("a"), End: []byte("b")},
		}},
	}
	f.apply(&backend.Effects{Auth: &backend.AuthChange{Revision: 5, Users: users, Roles: roles}})
	f.checkAuth(backend.Auth{Revision: 5, Users: users, Roles: roles})

	users[0].Roles, users[2].Hash = []string{"empty"}, []byte("new")
	users = append(users[:1], users[2], backend.AuthUser{Name: "d" + long, Hash: []byte("x"), TokensFrom: 7})
	roles[0].Permissions, roles = roles[1].Permissions[:1], roles[:1]
	f.apply(&backend.Effects{Auth: &backend.AuthChange{
		Enabled: true, Revision: 7, TokensFrom: 6, Users: users, Roles: roles,
		DroppedUsers: []string{"b"}, DroppedRoles: []string{"r\x00"},
	}})
	want := backend.Auth{Enabled: true, Revision: 7, TokensFrom: 6, Users: users, Roles: roles}
	f.checkAuth(want)
	f.commit([]op{put("k", "v")})
	f.checkAuth(want)
	if f.hooks.Reopen != nil {
		f.b = f.hooks.Reopen(f.T, f.b)
		f.checkAuth(want)
	}
}

func (f *fixture) checkAuth(want backend.Auth) {
	f.Helper()
	got, err := f.b.Auth(context.Background())
	if err != nil {
		f.Fatal(err)
	}
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) { // nil slices are as good as empty ones
		f.Fatalf("users and roles:\n     %+v\nwant %+v", got, want)
	}
}

// testAuthTokens stores tokens. They expire by the database's clock, without use only.
func testAuthTokens(f *fixture) {
	ctx := context.Background()
	lasting := backend.AuthToken{Sum: [32]byte{1}, User: "a\x00", Revision: 7, TTL: time.Hour}
	short := backend.AuthToken{Sum: [32]byte{2}, User: "b", Revision: 8, TTL: 10 * time.Millisecond}
	f.apply(&backend.Effects{Tokens: []backend.AuthToken{lasting, short}})
	f.checkToken(lasting, 59*time.Minute, time.Hour)
	for { // until it has expired
		_, left, err := f.b.AuthToken(ctx, short.Sum)
		if err != nil {
			f.Fatal(err)
		}
		if left <= 0 {
			break
		}
	}
	uses := []backend.AuthTokenUse{
		{Sum: short.Sum, Idle: time.Minute}, {Sum: [32]byte{9}}, {Sum: lasting.Sum, Idle: 30 * time.Minute},
	}
	f.wantErr("use tokens", f.b.UseAuthTokens(ctx, uses), nil)
	f.checkToken(lasting, 59*time.Minute, time.Hour) // an earlier use takes nothing away
	f.checkToken(short, -time.Hour, 0)
	f.wantErr("drop older tokens", f.b.DropAuthTokens(ctx, time.Hour), nil)
	f.wantErr("drop tokens", f.b.DropAuthTokens(ctx, 0), nil)
	f.wantErr("use a token", f.b.UseAuthTokens(ctx, []backend.AuthTokenUse{{Sum: short.Sum}}), nil)
	f.checkToken(backend.AuthToken{Sum: short.Sum}, 0, 0) // it is gone
	f.checkToken(lasting, 59*time.Minute, time.Hour)
	idle := backend.AuthToken{Sum: [32]byte{3}, User: "c", Revision: 9, TTL: 2 * time.Hour}
	f.apply(&backend.Effects{Tokens: []backend.AuthToken{idle}})
	f.wantErr("use a token", f.b.UseAuthTokens(ctx, []backend.AuthTokenUse{{Sum: idle.Sum}}), nil)
	f.checkToken(idle, 119*time.Minute, 2*time.Hour)
	f.commit([]op{put("k", "v")}) // the clock has not been moved
}

func (f *fixture) checkToken(want backend.AuthToken, least, most time.Duration) {
	f.Helper()
	got, left, err := f.b.AuthToken(context.Background(), want.Sum)
	if err != nil {
		f.Fatal(err)
	}
	if left < least || left > most || left > 0 && got != want {
		f.Errorf("token %+v with %v left, want %+v with %v to %v", got, left, want, least, most)
	}
}

// testAuthIsNews changes users through one backend: the number of the alarms tells the other.
func testAuthIsNews(p *pair) {
	before, err := p.other.Head(p.ctx)
	p.ok(err)
	users := []backend.AuthUser{{Name: "a", Hash: []byte("x"), TokensFrom: 2}}
	p.apply(&backend.Effects{Auth: &backend.AuthChange{Enabled: true, Revision: 2, Users: users}})
	after, err := p.other.Head(p.ctx)
	p.ok(err)
	if after.Alarms <= before.Alarms {
		p.Errorf("the number of the alarms went from %d to %d", before.Alarms, after.Alarms)
	}
	p.b = p.other
	p.checkAuth(backend.Auth{Enabled: true, Revision: 2, Users: users})
}
