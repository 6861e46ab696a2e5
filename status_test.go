package sqlstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sqlstore/sqlstore"
	"github.com/sqlstore/sqlstore/compactor"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
	"github.com/sqlstore/sqlstore/status"
)

// find returns the condition with this type, or nil.
func find(all []sqlstore.Condition, kind string) *sqlstore.Condition {
	for i := range all {
		if all[i].Type == kind {
			return &all[i]
		}
	}
	return nil
}

// holds reports whether a report has these conditions, written as "Ready False NoSpace"; "no NoSpace" means that it has
// no such condition.
func holds(r sqlstore.Status, want ...string) error {
	for _, w := range want {
		kind, absent := strings.CutPrefix(w, "no ")
		kind, _, _ = strings.Cut(kind, " ")
		c := find(r.Conditions, kind)
		switch {
		case absent && c != nil:
			return fmt.Errorf("%+v, want none", *c)
		case absent:
		case c == nil:
			return fmt.Errorf("no %s among %+v", kind, r.Conditions)
		case fmt.Sprint(c.Type, " ", c.Status, " ", c.Reason) != w:
			return fmt.Errorf("%+v, want %s", *c, w)
		}
	}
	return nil
}

func wantConditions(t *testing.T, s *sqlstore.Server, want ...string) {
	t.Helper()
	if err := holds(s.Status(t.Context()), want...); err != nil {
		t.Error(err)
	}
}

func TestStatusOfAServerThatIsWell(t *testing.T) {
	s, c := start(t, sqlstore.Config{Name: "n", Compaction: compactor.Config{
		Mode:      compactor.Periodic,
		Retention: "1h",
	}})
	put, err := c.Put(t.Context(), "k", "v")
	if err != nil {
		t.Fatal(err)
	}
	var r sqlstore.Status
	if err := json.Unmarshal([]byte(body(t, s.Endpoints()[0]+"/status")), &r); err != nil {
		t.Fatal(err)
	}
	if err := holds(r, "Accepted True Accepted", "ResolvedRefs True ResolvedRefs", "Programmed True Programmed",
		"Ready True Ready"); err != nil {
		t.Error(err)
	}
	id := fmt.Sprintf("%x", put.Header.MemberId)
	if len(r.Conditions) != 4 || r.Name != "n" || r.Generation != 1 || r.Revision != put.Header.Revision ||
		r.Member != id || r.Leader != id ||
		r.Members != 1 || r.Datastore != "temporary" || r.EtcdVersion != sqlstore.EtcdVersion ||
		r.Version != sqlstore.Version {
		t.Errorf("report %+v", r)
	}
	same := s.Status(t.Context())
	if same.Size == nil || r.Size == nil || r.Size.Keys != 1 || r.Size.Total < r.Size.InUse || r.Size.FreeDisk == nil {
		t.Errorf("sizes %+v, %+v", same.Size, r.Size)
	}
	same.Time, same.Size = r.Time, r.Size
	if !reflect.DeepEqual(same, r) {
		t.Errorf("Status returns %+v, /status %+v", same, r)
	}
	if err := s.Alive(t.Context()); err != nil {
		t.Error(err)
	}
	programmed := find(r.Conditions, "Programmed")
	if !strings.Contains(programmed.Message, s.Endpoints()[0]) || !strings.Contains(programmed.Message,
		"periodic and keeps 1h") {
		t.Errorf("%+v", programmed)
	}
	verbose := body(t, s.Endpoints()[0]+"/readyz?verbose")
	for _, want := range []string{
		"[+]writes ok\n", "[+]Ready True Ready: ",
		"[i]compactor mode=periodic retention=1h leads=true",
	} {
		if !strings.Contains(verbose, want) {
			t.Errorf("no %q in\n%s", want, verbose)
		}
	}
}

func TestStatusOfAFullDatabase(t *testing.T) {
	s, c := start(t, sqlstore.Config{QuotaBytes: 4_000_000})
	ctx, endpoint := t.Context(), s.Endpoints()[0]
	value := strings.Repeat("v", 200_000)
	for err := error(nil); !errors.Is(err, rpctypes.ErrNoSpace); {
		wantConditions(t, s, "Ready True Ready", "no NoSpace")
		if _, err = c.Put(ctx, "k", value); err != nil && !errors.Is(err, rpctypes.ErrNoSpace) {
			t.Fatal(err)
		}
	}
	wantConditions(t, s, "Ready False NoSpace", "NoSpace True QuotaExceeded", "no DatabaseUnavailable",
		"Programmed True Programmed")
	var full sqlstore.Status
	if err := json.Unmarshal([]byte(body(t, endpoint+"/status")), &full); err != nil {
		t.Fatal(err)
	}
	if want := []status.Alarm{{Type: "NOSPACE", Member: full.Member}}; !slices.Equal(full.Alarms, want) {
		t.Errorf("alarms %v, want %v", full.Alarms, want)
	}
	for path, want := range map[string]struct {
		code int
		part string
	}{
		"/readyz": {
			http.StatusServiceUnavailable,
			"[-]Ready False NoSpace: the NOSPACE alarm is raised",
		},
		"/readyz?exclude=NOSPACE":   {http.StatusOK, "ok"}, // etcd's checks, all of which pass
		"/readyz/linearizable_read": {http.StatusOK, "ok"},
		"/livez":                    {http.StatusOK, "ok"},
		"/metrics":                  {http.StatusOK, `sqlstore_condition{status="True",type="NoSpace"} 1`},
	} {
		if err := probe(endpoint+path, want.code, want.part); err != nil {
			t.Error(err)
		}
	}
	freeSpace(t, c)
	wantConditions(t, s, "Ready True Ready", "no NoSpace")
}

func TestStatusOfCertificates(t *testing.T) {
	const day = 24 * time.Hour
	dir := t.TempDir()
	files := sqlstore.TLSFiles{
		Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"),
		TrustedCA: filepath.Join(dir, "ca"),
	}
	selfSigned(t, files.Cert, files.Key, 365*day, 100*day)
	selfSigned(t, files.TrustedCA, filepath.Join(dir, "ca-key"), 365*day, 100*day)
	s, err := sqlstore.Start(t.Context(), sqlstore.Config{TLS: files, ListenClientURLs: []string{
		"https://127.0.0.1:0",
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	wantConditions(t, s, "ResolvedRefs True ResolvedRefs", "no CertificateExpiring")
	var ends []string
	for _, c := range s.Status(t.Context()).Certificates {
		ends = append(ends, fmt.Sprint(c.File, time.Until(c.Expires).Round(day)))
	}
	if want := []string{files.Cert + "2400h0m0s", files.TrustedCA + "2400h0m0s"}; !slices.Equal(ends, want) {
		t.Errorf("certificates %v, want %v", ends, want)
	}
	for _, c := range []struct {
		what         string
		file         string
		whole, rest  time.Duration
		want, beyond string
	}{
		{"a year's last weeks", files.Cert, 365 * day, 29 * day, "CertificateExpiring True NearEnd", files.Cert},
		{"a short one's middle", files.Cert, 3 * day, 2 * day, "no CertificateExpiring", ""},
		{
			"a short one's last third", files.Cert, 3 * day, 23 * time.Hour, "CertificateExpiring True NearEnd",
			files.Cert,
		},
		{"past its end", files.Cert, 3 * day, -time.Hour, "CertificateExpiring True Expired", files.Cert},
		{"new", files.Cert, 90 * day, 90 * day, "no CertificateExpiring", ""},
		{
			"the clients' authority", files.TrustedCA, 365 * day, day, "CertificateExpiring True NearEnd",
			files.TrustedCA,
		},
	} {
		key := files.Key
		if c.file != files.Cert {
			key = filepath.Join(dir, "ca-key")
		}
		selfSigned(t, c.file, key, c.whole, c.rest)
		wantConditions(t, s, c.want, "Ready True Ready", "ResolvedRefs True ResolvedRefs")
		if told := find(s.Status(t.Context()).Conditions, "CertificateExpiring"); told != nil &&
			!strings.Contains(told.Message, c.beyond) {
			t.Errorf("%s: %+v, want that it is %s", c.what, told, c.beyond)
		}
	}
	// The bundle holds the old authority and the new one.
	old, err := os.ReadFile(files.TrustedCA)
	if err != nil {
		t.Fatal(err)
	}
	selfSigned(t, files.TrustedCA, filepath.Join(dir, "ca-key"), 365*day, 365*day)
	both, err := os.ReadFile(files.TrustedCA)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files.TrustedCA, append(old, both...), 0o600); err != nil {
		t.Fatal(err)
	}
	wantConditions(t, s, "no CertificateExpiring")

	good, err := os.ReadFile(files.Cert)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files.Cert, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantConditions(t, s, "ResolvedRefs False CertificateUnreadable", "Ready True Ready", "Accepted True Accepted")
	if err := os.Remove(files.Cert); err != nil {
		t.Fatal(err)
	}
	wantConditions(t, s, "ResolvedRefs False CertificateUnreadable")
	if err := os.WriteFile(files.Cert, good, 0o600); err != nil {
		t.Fatal(err)
	}
	wantConditions(t, s, "ResolvedRefs True ResolvedRefs")
}

// Each reload raises the generation. If a reload is refused, only Accepted reports it; the others keep theirs.
func TestGenerations(t *testing.T) {
	s, _ := start(t, sqlstore.Config{})
	generations := func(newest, inForce int64, accepted string) {
		t.Helper()
		r := s.Status(t.Context())
		if err := holds(r, accepted, "Programmed True Programmed", "Ready True Ready"); err != nil ||
			r.Generation != newest {
			t.Errorf("generation %d, want %d; %v", r.Generation, newest, err)
		}
		for _, c := range r.Conditions {
			want := inForce
			if c.Type == "Accepted" {
				want = newest
			}
			if c.ObservedGeneration != want {
				t.Errorf("%s speaks of generation %d, want %d", c.Type, c.ObservedGeneration, want)
			}
		}
	}
	generations(1, 1, "Accepted True Accepted")
	if err := s.Reload(sqlstore.Reload{Compaction: compactor.Config{
		Mode:      compactor.Revision,
		Retention: "100",
	}}); err != nil {
		t.Fatal(err)
	}
	generations(2, 2, "Accepted True Accepted")
	if c := find(s.Conditions(), "Programmed"); !strings.Contains(c.Message, "revision and keeps 100") {
		t.Errorf("%+v does not tell of the new settings", c)
	}
	if err := s.Reload(sqlstore.Reload{Compaction: compactor.Config{
		Mode:      compactor.Revision,
		Retention: "x",
	}}); err == nil {
		t.Fatal("it was taken")
	}
	generations(3, 2, "Accepted False Invalid")
	if c := find(s.Conditions(), "Accepted"); !strings.Contains(c.Message, `"x"`) || !strings.Contains(c.Message,
		"generation 2 stays in force") {
		t.Errorf("%+v does not tell why", c)
	}
	s.RefuseReload(fmt.Errorf("%w: name", sqlstore.ErrFixed))
	generations(4, 2, "Accepted False FixedSetting")
	if c := find(s.Conditions(), "Accepted"); !strings.HasSuffix(c.Message, "name; restart the server to apply them, "+
		"or undo the change and send SIGHUP again") {
		t.Errorf("%+v does not say what to do", c)
	}
	if err := s.Reload(sqlstore.Reload{}); err != nil {
		t.Fatal(err)
	}
	generations(5, 5, "Accepted True Accepted")
}

// A server that is stopping is not ready while it finishes requests in flight.
func TestStatusWhileStopping(t *testing.T) {
	t.Parallel()
	address, err := launch.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	s, c := start(t, sqlstore.Config{ListenMetricsURLs: []string{"http://" + address}})
	finish := callInFlight(t, c.ActiveConnection())
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	eventually(t, "stopping", func() error {
		return probe("http://"+address+"/readyz", http.StatusServiceUnavailable, "[-]Ready False Stopping")
	})
	if err := finish(); err != nil {
		t.Errorf("the call in flight: %v", err)
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	wantConditions(t, s, "Ready False Stopping", "Programmed True Programmed", "no DatabaseUnavailable")
}

// A Postgres that does not notice damage to its files is reported, and served all the same.
func TestStatusOfPageChecksums(t *testing.T) {
	t.Parallel()
	for checksums, want := range map[bool]string{
		false: "NoPageChecksums True DataChecksumsOff", true: "no NoPageChecksums",
	} {
		server := pgserver.Start(t, pgserver.Options{PageChecksums: checksums})
		s, _ := start(t, sqlstore.Config{
			Datastore: server.Database(t), AcknowledgedConditions: []string{"NoPageChecksums"},
		})
		eventually(t, "the server has verified its database", func() error {
			return holds(s.Status(t.Context()), want, "Ready True Ready")
		})
		if checksums {
			continue
		}
		if c := find(s.Conditions(), "NoPageChecksums"); !c.Acknowledged {
			t.Errorf("%+v is not acknowledged", c)
		}
		if err := s.Reload(sqlstore.Reload{AcknowledgedConditions: []string{"Ready"}}); !errors.Is(err,
			sqlstore.ErrConfig) {
			t.Errorf("Ready is acknowledged: %v", err)
		}
		if err := s.Reload(sqlstore.Reload{}); err != nil {
			t.Fatal(err)
		}
		if c := find(s.Conditions(), "NoPageChecksums"); c.Acknowledged {
			t.Errorf("%+v is acknowledged after a reload without", c)
		}
	}
}

// A server whose database is large verifies it after the start. Here the verification waits for a lock, in a function
// that it calls for each row.
func TestStatusWhileVerifying(t *testing.T) {
	t.Parallel()
	server := pgserver.Start(t, pgserver.Options{})
	dsn := server.Database(t)
	s, c := start(t, sqlstore.Config{Datastore: dsn})
	if _, err := c.Put(t.Context(), "k", "v"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(context.WithoutCancel(t.Context())) }()
	for _, statement := range []string{
		"CREATE FUNCTION public.hashint8extended(bigint, bigint) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN " +
			"PERFORM pg_advisory_xact_lock_shared(1); RETURN pg_catalog.hashint8extended($1, $2); END'",
		"DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || " +
			"' SET search_path = public, pg_catalog'; END $$",
		"SELECT pg_advisory_lock(1)",
	} {
		if _, err := db.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	again, _ := start(t, sqlstore.Config{Datastore: dsn})
	wantConditions(t, again, "Ready False Verifying")
	if _, err := db.Exec(t.Context(), "SELECT pg_advisory_unlock(1)"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server becomes ready", func() error {
		return holds(again.Status(t.Context()), "Ready True Ready")
	})
}

// While a start waits for its database, an operator sees why, and also when the database appears, fails and recovers.
func TestStatusFollowsPostgres(t *testing.T) {
	t.Parallel()
	server := pgserver.Start(t, pgserver.Options{})
	cfg := sqlstore.Config{Datastore: server.Database(t), DatastorePasswordFile: filepath.Join(t.TempDir(), "password")}
	u, err := url.Parse(cfg.Datastore)
	if err != nil {
		t.Fatal(err)
	}
	secret, _ := u.User.Password()
	if err := os.WriteFile(cfg.DatastorePasswordFile, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	var urls []string
	for range 2 {
		address, err := launch.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		urls = append(urls, "http://"+address)
	}
	cfg.ListenClientURLs, cfg.ListenMetricsURLs = urls[:1], urls[1:]
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	started := make(chan *sqlstore.Server, 1)
	go func() {
		s, err := sqlstore.Start(t.Context(), cfg)
		if err != nil {
			t.Error(err)
		}
		started <- s
	}()
	report := func(at string) (r sqlstore.Status, err error) {
		resp, err := http.Get(at + "/status") //nolint:noctx // a test's own loopback server
		if err != nil {
			return r, err
		}
		defer resp.Body.Close()
		return r, json.NewDecoder(resp.Body).Decode(&r)
	}
	for _, at := range urls {
		eventually(t, "the start waits", func() error {
			r, err := report(at)
			if err != nil {
				return err
			}
			return holds(r, "Accepted True Accepted", "ResolvedRefs False DatabaseUnreachable",
				"Programmed Unknown Pending",
				"Ready False DatabaseUnreachable", "DatabaseUnavailable True DatabaseUnreachable")
		})
		for path, want := range map[string]struct {
			code int
			part string
		}{
			"/livez":   {http.StatusOK, "ok"},
			"/health":  {http.StatusServiceUnavailable, `"health":"false"`},
			"/readyz":  {http.StatusServiceUnavailable, "[-]ResolvedRefs False DatabaseUnreachable"},
			"/metrics": {http.StatusOK, `sqlstore_condition{status="Unknown",type="Programmed"} 1`},

			"/health?serializable=true": {http.StatusOK, `"health":"true"`},
		} {
			if err := probe(at+path, want.code, want.part); err != nil {
				t.Error(err)
			}
		}
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	s := <-started
	if s == nil {
		return
	}
	defer s.Close()
	wantConditions(t, s, "ResolvedRefs True ResolvedRefs", "Programmed True Programmed", "Ready True Ready",
		"no DatabaseUnavailable")
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	wait := putting(t, s)
	eventually(t, "the database has gone", func() error {
		return holds(sqlstore.Status{Conditions: s.Conditions()}, "Ready False DatabaseUnavailable",
			"DatabaseUnavailable True NoHeartbeat",
			"WatchLagging True TailBehind", "ResolvedRefs True ResolvedRefs")
	})
	if s.Status(t.Context()).LastError == nil {
		t.Error("the heartbeats have failed, and no last error is reported")
	}
	if err := probe(urls[1]+"/readyz", http.StatusServiceUnavailable,
		"[-]DatabaseUnavailable True NoHeartbeat"); err != nil {
		t.Error(err)
	}
	wait()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the database is back", func() error {
		if c := find(s.Conditions(), "DatabaseUnavailable"); c != nil && c.Reason == "WritesFail" {
			t.Errorf("writes failed during the outage: %+v", *c)
		}
		return holds(s.Status(t.Context()), "Ready True Ready", "no DatabaseUnavailable", "no WatchLagging")
	})
	if err := os.Remove(cfg.DatastorePasswordFile); err != nil {
		t.Fatal(err)
	}
	wantConditions(t, s, "ResolvedRefs False PasswordFileUnreadable")
}

// putting puts without end, whatever the answers are. The function that it returns ends that.
func putting(t *testing.T, s *sqlstore.Server) (end func()) {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: s.Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var puts sync.WaitGroup
	puts.Go(func() {
		for ctx.Err() == nil {
			one, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			_, _ = c.Put(one, "k", "v")
			<-one.Done()
			cancel()
		}
	})
	return func() {
		cancel()
		puts.Wait()
		_ = c.Close()
	}
}

// A replica that cannot read what others commit reports it, and after a while reports that it serves no reads, although
// the database accepts its heartbeats.
func TestStatusOfAReplicaThatIsBehind(t *testing.T) {
	t.Parallel()
	dsn := pgserver.Database(t)
	s, _ := start(t, sqlstore.Config{Datastore: dsn})
	unlock := pgserver.LockTable(t, dsn, "clock")
	eventually(t, "behind", func() error {
		now := s.Status(t.Context())
		if err := holds(now, "WatchLagging True TailBehind"); err != nil {
			return err
		}
		if now.LagSeconds < 5 || len(now.Replicas) != 1 || now.Replicas[0].ID != now.Member {
			t.Errorf("a lag of %g s, replicas %v", now.LagSeconds, now.Replicas)
		}
		return nil
	})
	eventually(t, "of no use", func() error {
		return holds(s.Status(t.Context()), "DatabaseUnavailable True ReadsTimeOut", "Ready False DatabaseUnavailable")
	})
	unlock()
	eventually(t, "in step again", func() error {
		return holds(s.Status(t.Context()), "Ready True Ready", "no WatchLagging", "no DatabaseUnavailable")
	})
}

// A database that accepts heartbeats, but no other writes, is reported once it has refused them for a while.
func TestStatusWithoutARight(t *testing.T) {
	t.Parallel()
	db := pgserver.Start(t, pgserver.Options{})
	dsn := db.Database(t)
	s, c := start(t, sqlstore.Config{Datastore: owned(t, dsn, "owner")})
	put := func() error {
		_, err := c.Put(t.Context(), "k", "v")
		return err
	}
	administer(t, dsn, "REVOKE INSERT ON object_versions FROM owner")
	eventually(t, "it is reported", func() error {
		if put() == nil {
			t.Fatal("a put without the right to insert succeeded")
		}
		return holds(s.Status(t.Context()), "Ready False DatabaseUnavailable", "DatabaseUnavailable True WritesFail")
	})
	administer(t, dsn, "GRANT INSERT ON object_versions TO owner")
	eventually(t, "it has recovered", func() error {
		return errors.Join(put(), holds(s.Status(t.Context()), "Ready True Ready", "no DatabaseUnavailable"))
	})
}

// owned creates a role that owns the database, and returns the role's DSN.
func owned(t *testing.T, dsn, role string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	administer(t, dsn, "CREATE ROLE "+role+" LOGIN PASSWORD 'p'; GRANT ALL ON SCHEMA public TO "+role+
		"; ALTER DATABASE "+strings.Trim(u.Path, "/")+" OWNER TO "+role)
	u.User = url.UserPassword(role, "p")
	return u.String()
}

func administer(t *testing.T, dsn, sql string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Exec(t.Context(), sql)
	if err := errors.Join(err, c.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// A database server that allows fewer connections than the server wants is reported, and served.
func TestConnectionsRefused(t *testing.T) {
	t.Parallel()
	db := pgserver.Start(t, pgserver.Options{})
	dsn := db.Database(t)
	s, c := start(t, sqlstore.Config{Datastore: owned(t, dsn, "few")})
	administer(t, dsn, "ALTER ROLE few CONNECTION LIMIT 3")
	for i := range 3 { // a defragmentation leaves its connection, and takes another
		if _, err := c.Put(t.Context(), "k", fmt.Sprint(i)); err != nil {
			t.Error(err)
		}
		if _, err := c.Defragment(t.Context(), s.Endpoints()[0]); err != nil {
			t.Error(err)
		}
	}
	eventually(t, "it is reported", func() error {
		return holds(s.Status(t.Context()), "ConnectionsRefused True TooManyConnections", "Ready True Ready")
	})
}
