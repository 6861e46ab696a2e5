package deploy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pgserver"
	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
)

// timeout limits each step of a run.
const timeout = 2 * time.Minute

// start runs the container's command line with the real binary, and waits until its readiness probe succeeds.
func (c *container) start() *exec.Cmd {
	c.Helper()
	log, err := os.Create(filepath.Join(c.root, "log"))
	if err != nil {
		c.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(launch.Binary(c.T), c.arguments()...)
	cmd.Env = append(c.environment(), "TMPDIR="+filepath.Join(c.root, "tmp"))
	cmd.Dir = c.root
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = cluster.SysProcAttr()
	if err := cmd.Start(); err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		if text, err := os.ReadFile(log.Name()); c.Failed() {
			c.Logf("%s: %v\n%s", log.Name(), err, text)
		}
	})
	end := time.Now().Add(timeout)
	for err := c.probe(c.spec.ReadinessProbe); err != nil; err = c.probe(c.spec.ReadinessProbe) {
		if time.Now().After(end) {
			c.Fatalf("the readiness probe: %v", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return cmd
}

// probe calls a probe as a kubelet does: without a client certificate, and without verifying the server's.
func (c *container) probe(p *corev1.Probe) error {
	if p == nil || p.HTTPGet == nil {
		return errors.New("no HTTP probe")
	}
	address := c.ports[p.HTTPGet.Port.StrVal]
	scheme := strings.ToLower(string(p.HTTPGet.Scheme))
	if scheme == "" {
		scheme = "http"
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // as a kubelet
	}}
	resp, err := client.Get(scheme + "://" + address + p.HTTPGet.Path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

// client connects to the container, over TLS with a certificate.
func (c *container) client(secure bool) *clientv3.Client {
	c.Helper()
	cfg := clientv3.Config{Endpoints: []string{c.ports["client"]}, Logger: zap.NewNop()}
	if secure {
		cfg.TLS = &tls.Config{
			RootCAs: c.ca.Pool(), MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{c.ca.Pair("client")},
		}
	}
	client, err := clientv3.New(cfg)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { _ = client.Close() })
	return client
}

// refusesOthers fails the test unless a client without a certificate is refused because it has none.
func (c *container) refusesOthers() {
	c.Helper()
	client := &http.Client{Timeout: timeout, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: c.ca.Pool(), MinVersion: tls.VersionTLS12},
	}}
	defer client.CloseIdleConnections()
	resp, err := client.Get("https://" + c.ports["client"] + "/version")
	if err == nil {
		_ = resp.Body.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "certificate required") {
		c.Errorf("a client without a certificate: %v", err)
	}
}

// refusesPages fails the test unless the server serves HTTP under the name of its Service, and not under the name of an
// attacker, who makes it resolve to a port that somebody forwards.
func (c *container) refusesPages() {
	c.Helper()
	for host, want := range map[string]int{
		release + "-sqlstore." + namespace + ".svc": http.StatusOK, "evil.example": http.StatusMisdirectedRequest,
	} {
		req, err := http.NewRequestWithContext(c.Context(), http.MethodGet, "http://"+c.ports["client"]+"/version", nil)
		if err != nil {
			c.Fatal(err)
		}
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			c.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			c.Errorf("the host %s gets %s, want %d", host, resp.Status, want)
		}
	}
}

// stop ends the server as a kubelet does after the hook, and fails the test if it takes longer than a kubelet waits.
func (c *container) stop(cmd *exec.Cmd, seconds int64) {
	c.Helper()
	if hook := c.spec.Lifecycle; hook != nil {
		seconds -= hook.PreStop.Sleep.Seconds
	}
	kill := time.AfterFunc(time.Duration(seconds)*time.Second, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		c.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		c.Errorf("the server ends with %v", err)
	}
}

// serves runs the container: its probes succeed, clients need what they should need, and a restart on the same volumes
// has the data.
func serves(t *testing.T, c *container, secure, certified bool, seconds int64) {
	t.Helper()
	cmd := c.start()
	if err := c.probe(c.spec.LivenessProbe); err != nil {
		t.Errorf("the liveness probe: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	client := c.client(secure)
	if _, err := client.Put(ctx, "color", "blue"); err != nil {
		t.Fatal(err)
	}
	if certified {
		c.refusesOthers()
	}
	if !secure {
		c.refusesPages()
	}
	// Deletes must still reach a server without space.
	alarm := &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_NOSPACE}
	maintenance := pb.NewMaintenanceClient(client.ActiveConnection())
	if _, err := maintenance.Alarm(ctx, alarm); err != nil {
		t.Fatal(err)
	}
	if err := c.probe(c.spec.ReadinessProbe); err != nil {
		t.Errorf("the readiness probe without space: %v", err)
	}
	c.stop(cmd, seconds)
	c.forget()
	cmd = c.start()
	got, err := client.Get(ctx, "color")
	if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "blue" {
		t.Errorf("after a restart: %v, %v", got, err)
	}
	c.stop(cmd, seconds)
}

// The Pods serve, with the real binary.
func TestRun(t *testing.T) {
	for _, r := range []struct {
		values            string
		secure, certified bool
	}{{"sqlite", false, false}, {"sqlite-tls", true, true}} {
		t.Run(r.values, func(t *testing.T) {
			all := render(t, "--values", "testdata/values/"+r.values+".yaml")
			pod, _ := all.workload(t)
			c := prepare(t, &pod.Spec, claims(t, all), "", "")
			serves(t, c, r.secure, r.certified, *pod.Spec.TerminationGracePeriodSeconds)
		})
	}
}

// So do those over Postgres, which get its password from a Secret, or the whole DSN.
func TestRunOverPostgres(t *testing.T) {
	for _, r := range []struct {
		values    string
		certified bool
	}{{"postgres", false}, {"postgres-secret", true}} {
		t.Run(r.values, func(t *testing.T) {
			dsn, password := pgserver.Database(t), ""
			flags := []string{"--values", "testdata/values/" + r.values + ".yaml"}
			if r.values == "postgres" {
				dsn, password = withoutPassword(t, dsn)
				own := filepath.Join(t.TempDir(), "values.yaml")
				text := fmt.Sprintf("datastore: {postgres: {dsn: %q}}\n", dsn)
				if err := os.WriteFile(own, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				flags = append(flags, "--values", own)
			}
			all := render(t, flags...)
			pod, _ := all.workload(t)
			c := prepare(t, &pod.Spec, nil, dsn, password)
			serves(t, c, true, r.certified, *pod.Spec.TerminationGracePeriodSeconds)
		})
	}
}

func withoutPassword(t *testing.T, dsn string) (without, password string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	password, _ = u.User.Password()
	u.User = url.User(u.User.Username())
	return u.String(), password
}
