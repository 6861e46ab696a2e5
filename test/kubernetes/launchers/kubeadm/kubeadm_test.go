package kubeadm

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"text/template"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/sqlstore/sqlstore/test/programs"
)

// imageUser is the user and the group of the image. The kubelet mounts directories of the node as they are, so they
// must belong to it.
const imageUser = 65532

var configuration = template.Must(template.New("kubeadm").Parse(`apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint:
  advertiseAddress: {{.Address}}
nodeRegistration:
  name: node
  criSocket: unix:///run/containerd/containerd.sock
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: {{.Version}}
certificatesDir: {{.Dir}}/pki
etcd:
  local:
    imageRepository: registry.example.com/sqlstore
    imageTag: latest
    dataDir: {{.Dir}}/data
`))

// kubeadm runs phases of `kubeadm init`.
type kubeadm struct {
	*testing.T
	dir string // certificates, data and manifests
}

func (k *kubeadm) configure(address string) {
	k.Helper()
	f, err := os.Create(filepath.Join(k.dir, "kubeadm.yaml"))
	if err != nil {
		k.Fatal(err)
	}
	defer f.Close()
	if err := configuration.Execute(f, map[string]string{
		"Address": address, "Version": programs.Kubeadm.Version(k.T), "Dir": k.dir,
	}); err != nil {
		k.Fatal(err)
	}
}

func (k *kubeadm) phase(args ...string) {
	k.Helper()
	args = append([]string{"init", "phase", "--config", filepath.Join(k.dir, "kubeadm.yaml")}, args...)
	cmd := exec.CommandContext(k.Context(), programs.Kubeadm.Path(k.T), args...)
	cmd.Env = append(cmd.Environ(), "KUBEADM_INIT_DRYRUN_DIR="+k.dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		k.Fatalf("kubeadm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// manifest returns the static Pod that kubeadm writes for etcd.
func (k *kubeadm) manifest() *corev1.Pod {
	k.Helper()
	k.phase("etcd", "local", "--dry-run") // otherwise it writes to /etc/kubernetes/manifests
	b, err := os.ReadFile(filepath.Join(k.dir, "etcd.yaml"))
	if err != nil {
		k.Fatal(err)
	}
	var p corev1.Pod
	if err := yaml.UnmarshalStrict(b, &p); err != nil {
		k.Fatal(err)
	}
	return &p
}

// giveToImage does what docs/etcd.md says: certificates and data belong to the image's user.
func (k *kubeadm) giveToImage() {
	k.Helper()
	if err := os.Mkdir(filepath.Join(k.dir, "data"), 0o700); err != nil {
		k.Fatal(err)
	}
	for _, dir := range []string{"data", "pki/etcd"} {
		if err := filepath.WalkDir(filepath.Join(k.dir, dir), func(path string, _ fs.DirEntry, err error) error {
			if err == nil {
				err = os.Chown(path, imageUser, imageUser)
			}
			return err
		}); err != nil {
			k.Fatalf("%v: this test needs root", err)
		}
	}
}

// TestStaticPod starts the Pod that `kubeadm init` writes for etcd. All its probes succeed, the certificates that
// kubeadm makes work, clients without one are refused, and the data survives a restart.
func TestStaticPod(t *testing.T) {
	n := startNode(t)
	dir := t.TempDir()
	k := &kubeadm{t, dir}
	k.configure(n.address)
	for _, cert := range []string{"etcd-ca", "etcd-server", "etcd-peer", "etcd-healthcheck-client"} {
		k.phase("certs", cert)
	}
	k.giveToImage()
	pod := k.manifest()
	etcd := n.run(pod)
	c := pod.Spec.Containers[0]
	n.becomes(func() error { return n.probe(c, c.StartupProbe) })
	for name, p := range map[string]*corev1.Probe{"liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
		if err := n.probe(c, p); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}

	etcdctl := func(cert string, args ...string) (string, error) {
		pki := filepath.Join(dir, "pki", "etcd")
		return n.execute(etcd, append([]string{
			"etcdctl", "--endpoints", pod.Annotations["kubeadm.kubernetes.io/etcd.advertise-client-urls"],
			"--cacert", filepath.Join(pki, "ca.crt"), "--cert", filepath.Join(pki, cert+".crt"),
			"--key", filepath.Join(pki, cert+".key"),
		}, args...)...)
	}
	for _, step := range []struct{ args, want string }{
		{"put /registry/a 1", "OK"},
		{"get /registry/a --print-value-only", "1"},
		{"endpoint health", "is healthy"},
		{"member list", "node"},
	} {
		if out, err := etcdctl("healthcheck-client", strings.Fields(step.args)...); err != nil ||
			!strings.Contains(out, step.want) {
			t.Errorf("etcdctl %s: %v, printed %q, want %q", step.args, err, out, step.want)
		}
	}
	if out, err := n.execute(etcd, "etcdctl", "--endpoints",
		pod.Annotations["kubeadm.kubernetes.io/etcd.advertise-client-urls"], "--insecure-skip-tls-verify",
		"--insecure-transport=false", "--dial-timeout", "2s", "--command-timeout", "5s", "get", "a"); err == nil {
		t.Errorf("a client without a certificate gets %q", out)
	}

	// The kubelet starts the container again after it has ended.
	stop := time.Minute
	if err := etcd.Stop(t.Context(), &stop); err != nil {
		t.Fatal(err)
	}
	etcd = n.run(pod)
	n.becomes(func() error { return n.probe(c, c.StartupProbe) })
	if out, err := etcdctl("healthcheck-client", "get", "/registry/a", "--print-value-only"); err != nil ||
		strings.TrimSpace(out) != "1" {
		t.Errorf("after a restart: %v, %q", err, out)
	}
}

// becomes waits until f succeeds.
func (n *node) becomes(f func() error) {
	n.Helper()
	for end := time.Now().Add(timeout); ; time.Sleep(100 * time.Millisecond) {
		err := f()
		switch {
		case err == nil:
			return
		case time.Now().After(end):
			n.Fatal(err)
		}
	}
}
