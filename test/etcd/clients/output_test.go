package clients

import (
	"regexp"
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/test/etcd/servers"
)

// command is one etcdctl run; LEASE in args stands for the lease granted last.
type command struct {
	args  string
	stdin string
}

// The commands whose output depends only on their arguments and the existing data.
var commands = []command{
	{args: "put a 1"},
	{args: "put a 2 --prev-kv"},
	{args: "put a -- -3"},
	{args: "put from-stdin", stdin: "value with\nlines"},
	{args: "put dir/a 1"},
	{args: "put dir/b 2"},
	{args: "put dir/b 3"},
	{args: "put dir/c 1"},
	{args: "put a 4 --ignore-lease"},
	{args: "put a --ignore-value"},
	{args: "put missing --ignore-value"},
	{args: "put x 1 --lease=123456"},
	{args: "get a"},
	{args: "get a --hex"},
	{args: "get a -w fields"},
	{args: "get missing"},
	{args: "get dir/ --prefix"},
	{args: "get dir/ --prefix --keys-only"},
	{args: "get dir/ --prefix --print-value-only"},
	{args: "get dir/ --prefix --count-only -w fields"},
	{args: "get dir/ --prefix --limit=2 -w fields"},
	{args: "get dir/ --prefix --order=DESCEND"},
	{args: "get dir/ --prefix --sort-by=MODIFY --order=DESCEND"},
	{args: "get dir/ --prefix --sort-by=CREATE"},
	{args: "get dir/ --prefix --sort-by=VERSION --order=DESCEND --limit=1"},
	{args: "get dir/ --prefix --min-mod-rev=8"},
	{args: "get dir/ --prefix --max-create-rev=6"},
	{args: "get dir/a dir/c"},
	{args: "get dir/b --from-key"},
	{args: "get dir/b --rev=7 -w fields"},
	{args: "get dir/b --rev=1000"},
	{args: "get a --consistency=s"},
	{args: "get dir/ --prefix --stream"},
	{args: "get dir/ --prefix --stream --limit=2"},
	{args: "get dir/ --prefix --stream --count-only"},
	{args: "del missing"},
	{args: "del a --prev-kv"},
	{args: "del dir/a dir/c"},
	{args: "put dir/d 1"},
	{args: "del dir/ --prefix --prev-kv"},
	{args: "put q 1"},
	{args: "del q --from-key"},
	{args: "put t 1"},
	{args: "txn -i", stdin: "value(\"t\") = \"1\"\nversion(\"t\") > \"0\"\n\nput t 2\nget t\n\ndel t\n\n"},
	{args: "txn -i", stdin: "mod(\"t\") = \"1\"\n\nput t 3\n\nget t\ndel t --prev-kv\n\n"},
	{args: "txn", stdin: "create(\"new\") = \"0\"\n\nput new 1\nput new2 2\n\n\n"},
	{args: "txn -w fields", stdin: "version(\"new\") = \"1\"\n\nget new --prefix\n\n\n"},
	{args: "txn", stdin: "\nput dup 1\nput dup 2\n\n\n"},
	{args: "lease grant 300"},
	{args: "put leased 1 --lease=LEASE"},
	{args: "lease list"},
	{args: "lease timetolive LEASE --keys"}, // of several keys the order varies
	{args: "put leased2 2 --lease=LEASE"},
	{args: "lease keep-alive --once LEASE"},
	{args: "lease revoke LEASE"},
	{args: "lease revoke LEASE"},
	{args: "lease timetolive LEASE"},
	{args: "lease list"},
	{args: "get leased --prefix"},
	{args: "compaction 10"},
	{args: "compaction 10"},
	{args: "compaction 100000"},
	{args: "get new --rev=9"},
	{args: "compaction 12 --physical"},
	{args: "alarm list"},
	{args: "alarm disarm"},
	{args: "defrag"},
	{args: "auth status"},
	{args: "endpoint health"},
	{args: "get  --from-key"},
}

func TestSameOutput(t *testing.T) {
	etcd, target := servers.Etcd(t, "--unsafe-no-fsync"), servers.Target(t, "--unsafe-no-fsync")
	leases := map[string]string{} // by endpoint
	for _, c := range commands {
		run := func(endpoint string) result {
			args := strings.Split(strings.ReplaceAll(c.args, "LEASE", leases[endpoint]), " ")
			r := ctl(t, endpoint, c.stdin, args...)
			if m := granted.FindStringSubmatch(r.stdout); m != nil {
				leases[endpoint] = m[1]
			}
			return normal(r, endpoint, leases[endpoint])
		}
		if want, got := run(etcd.Endpoint()), run(target.Endpoint()); want != got {
			t.Errorf("etcdctl %s\netcd:   %+v\ntarget: %+v", c.args, want, got)
		}
	}
}

var (
	granted = regexp.MustCompile(`lease ([0-9a-f]+) granted`)
	took    = regexp.MustCompile(`took( = | ?)[0-9.µmsn]+`)
	seconds = regexp.MustCompile(`remaining\((29[0-9]|300)s\)`)
	ids     = regexp.MustCompile(`"(ClusterID|MemberID|RaftTerm)" : [0-9]+`)
	logged  = regexp.MustCompile(`(?m)^\{"level".*\n`) // from the client library, with its own times and addresses
)

// normal removes what differs between any two servers from a command's output.
func normal(r result, endpoint, lease string) result {
	for _, s := range []*string{&r.stdout, &r.stderr} {
		*s = strings.ReplaceAll(*s, endpoint, "ENDPOINT")
		if lease != "" {
			*s = strings.ReplaceAll(*s, lease, "LEASE")
		}
		*s = took.ReplaceAllString(*s, "took TIME")
		*s = seconds.ReplaceAllString(*s, "remaining(SECONDS)")
		*s = ids.ReplaceAllString(*s, `"$1" : ID`)
		*s = logged.ReplaceAllString(*s, "")
	}
	return r
}
