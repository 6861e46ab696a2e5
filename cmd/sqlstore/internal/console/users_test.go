package console_test

import (
	"fmt"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func (s *served) raise(member uint64, kind pb.AlarmType) {
	s.t.Helper()
	_, err := pb.NewMaintenanceClient(s.client.ActiveConnection()).Alarm(s.within(), &pb.AlarmRequest{
		Action: pb.AlarmRequest_ACTIVATE, MemberID: member, Alarm: kind,
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *served) checked(_ any, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func TestUsersPage(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.get("/users").want(200, "Authentication is off", "There are no users", "There are no roles")
	ctx := s.within()
	const hostile = `</td><script>"` + "\u202e"
	s.checked(s.client.UserAdd(ctx, hostile, "p"))
	s.checked(s.client.UserAddWithOptions(ctx, "agent", "", &clientv3.UserAddOptions{NoPassword: true}))
	for _, role := range []string{"root", "some", hostile} {
		s.checked(s.client.RoleAdd(ctx, role))
		s.checked(s.client.UserGrantRole(ctx, "agent", role))
	}
	read, write := clientv3.PermissionType(clientv3.PermRead), clientv3.PermissionType(clientv3.PermReadWrite)
	s.checked(s.client.RoleGrantPermission(ctx, "some", "k", "", read))
	s.checked(s.client.RoleGrantPermission(ctx, "some", "p/", "p0", write))
	s.checked(s.client.RoleGrantPermission(ctx, "some", "s", "\x00", read))
	s.checked(s.client.RoleGrantPermission(ctx, "some", "s", "x\xff", read))
	s.get("/users").want(200, "Authentication is off", "<bdi>agent</bdi><td>none<",
		`<bdi>&lt;/td&gt;&lt;script&gt;&#34;\u202e</bdi><td>set<`, "<bdi>root</bdi>, <bdi>some</bdi>",
		"<td>read and write<td class=\"text\">all keys", "nothing",
		`<td>read<td class="text"><a href="/object?key=k"><bdi>k</bdi></a>`,
		`<td>read and write<td class="text">those that begin with <a href="/browse?prefix=p%2F"><bdi>p/</bdi></a>`,
		"those from <bdi>s</bdi> on", `those from <bdi>s</bdi> up to, and without, <bdi>x\xff</bdi>`,
	).without("<script>\"", "more", "First")
	for i := range 21 {
		s.checked(s.client.RoleGrantPermission(ctx, "root", fmt.Sprint(i), "", read))
		s.checked(s.client.RoleGrantPermission(ctx, hostile, fmt.Sprint(i), "", read))
	}
	p := s.get("/users").want(200, "and 1 more permissions", `rowspan="21"`)
	if n := strings.Count(p.body, "more permissions"); n != 1 {
		t.Errorf("%d roles have more permissions than the page shows", n)
	}
}

// Many users and roles come in pages, each list by itself.
func TestManyUsers(t *testing.T) {
	t.Parallel()
	s := serve(t)
	ctx := s.within()
	certified := &clientv3.UserAddOptions{NoPassword: true}
	for i := range 201 {
		s.checked(s.client.UserAddWithOptions(ctx, fmt.Sprintf("u%03d", i), "", certified))
		s.checked(s.client.RoleAdd(ctx, fmt.Sprintf("r%03d", i)))
	}
	first := s.get("/users").want(200, "u199", "r199", ">More users<", ">More roles<")
	first.without("u200", "r200", "First")
	_, rest, _ := strings.Cut(first.body, `rel="next" href="`)
	next, _, _ := strings.Cut(rest, `"`)
	users := s.get(strings.ReplaceAll(next, "&amp;", "&")).want(200, "u200", "r199", ">First users<", ">More roles<")
	users.without("u199", "r200", "More users", "First roles")
	_, rest, _ = strings.Cut(users.body, `rel="next" href="`)
	next, _, _ = strings.Cut(rest, `"`)
	s.get(strings.ReplaceAll(next, "&amp;", "&")).want(200, "u200", "r200", ">First users<", ">First roles<").without(
		"u199", "r199", "More")
	s.get("/users?users=*").want(400, "continue token")
}

// While users have rights, these pages show what a user may see over etcd's API.
func TestRightsOfPages(t *testing.T) {
	t.Parallel()
	s := serve(t)
	ctx := s.within()
	mine, _ := s.grant(3600, "/a/1")
	shared, _ := s.grant(3600, "/a/2", "/b/1")
	for _, name := range []string{"root", "alice"} {
		s.checked(s.client.UserAdd(ctx, name, "secret"))
		s.checked(s.client.RoleAdd(ctx, name))
		s.checked(s.client.UserGrantRole(ctx, name, name))
	}
	s.checked(s.client.RoleGrantPermission(ctx, "alice", "/a/", "/a0", clientv3.PermissionType(clientv3.PermRead)))
	s.checked(s.client.AuthEnable(ctx))
	const alice, root = "Authorization: Basic YWxpY2U6c2VjcmV0", "Authorization: Basic cm9vdDpzZWNyZXQ="
	for path, want := range map[string][3]int{ // without a user, of alice, of root
		"/alarms":             {401, 200, 200},
		"/leases":             {401, 403, 200},
		"/lease?id=" + mine:   {401, 200, 200},
		"/lease?id=" + shared: {401, 403, 200},
		"/users":              {401, 200, 200},
		"/object?key=/a/2":    {401, 200, 200},
	} {
		for i, headers := range [][]string{nil, {alice}, {root}} {
			if p := s.get(path, headers...); p.code != want[i] {
				t.Errorf("%s of %q: %d %s", path, headers, p.code, p.body)
			}
		}
	}
	s.get("/object?key=/a/2", alice).want(200, shared+"</a>, expires in").without("/b/1")
	s.get("/users", alice).want(200, "You see your own", "<bdi>alice</bdi><td>set<", "prefix=%2Fa%2F").
		without("root</bdi>")
	s.get("/users", root).want(200, "Authentication is on", "<bdi>alice</bdi><td>set<").without("$2a$")
}
