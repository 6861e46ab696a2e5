package deploy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coreos/go-systemd/v22/unit"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/sqlstore/sqlstore/test/programs"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(deployed(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func staticPod(t *testing.T) *corev1.Pod {
	t.Helper()
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict([]byte(read(t, "static-pod/sqlstore.yaml")), &pod); err != nil {
		t.Fatal(err)
	}
	return &pod
}

// The static Pod serves, with the real binary.
func TestStaticPod(t *testing.T) {
	pod := staticPod(t)
	c := prepare(t, &pod.Spec, nil, "", "")
	accepts(t, c)
	serves(t, c, true, true, *pod.Spec.TerminationGracePeriodSeconds)
}

// store is what a launcher tells its kube-apiserver.
type store struct {
	endpoints     []string
	ca, cert, key string
}

// k3sStore reads the file with the types of k3s' flags: strings.
func k3sStore(t *testing.T) store {
	t.Helper()
	var file struct {
		Endpoint string `json:"datastore-endpoint"`
		CA       string `json:"datastore-cafile"`
		Cert     string `json:"datastore-certfile"`
		Key      string `json:"datastore-keyfile"`
	}
	if err := yaml.UnmarshalStrict([]byte(read(t, "k3s/config.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	return store{strings.Split(file.Endpoint, ","), file.CA, file.Cert, file.Key}
}

// k0sStore reads the part of k0s' ClusterConfig that concerns the store. k0s demands a prefix, and refuses some of the
// three files without the others.
func k0sStore(t *testing.T) store {
	t.Helper()
	var file struct {
		APIVersion string                `json:"apiVersion"`
		Kind       string                `json:"kind"`
		Metadata   struct{ Name string } `json:"metadata"`
		Spec       struct {
			Storage struct {
				Type string `json:"type"`
				Etcd struct {
					ExternalCluster struct {
						Endpoints      []string `json:"endpoints"`
						EtcdPrefix     string   `json:"etcdPrefix"`
						CAFile         string   `json:"caFile"`
						ClientCertFile string   `json:"clientCertFile"`
						ClientKeyFile  string   `json:"clientKeyFile"`
					} `json:"externalCluster"`
				} `json:"etcd"`
			} `json:"storage"`
		} `json:"spec"`
	}
	if err := yaml.UnmarshalStrict([]byte(read(t, "k0s/k0s.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	e := file.Spec.Storage.Etcd.ExternalCluster
	if file.APIVersion != "k0s.k0sproject.io/v1beta1" || file.Kind != "ClusterConfig" || e.EtcdPrefix == "" ||
		file.Spec.Storage.Type != "etcd" {
		t.Errorf("%+v", file)
	}
	return store{e.Endpoints, e.CAFile, e.ClientCertFile, e.ClientKeyFile}
}

// kubeadmStore reads kubeadm's file, which [TestKubeadm] shows to kubeadm itself.
func kubeadmStore(t *testing.T) store {
	t.Helper()
	var file struct {
		Etcd struct {
			External struct {
				Endpoints                 []string
				CAFile, CertFile, KeyFile string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "kubeadm/external.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	e := file.Etcd.External
	return store{e.Endpoints, e.CAFile, e.CertFile, e.KeyFile}
}

// With the configuration for nodes, the server accepts clients with the address and the files of each launcher.
func TestNode(t *testing.T) {
	const file = "/etc/sqlstore/sqlstore.yaml"
	directory := func(path string) corev1.VolumeSource {
		return corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}
	}
	c := prepare(t, &corev1.PodSpec{
		Containers: []corev1.Container{{
			Args: []string{"serve", "--config-file=" + file},
			Ports: []corev1.ContainerPort{
				{Name: "client", ContainerPort: 2379}, {Name: "metrics", ContainerPort: 2381},
			},
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
				Path: "/readyz", Port: intstr.FromString("metrics"),
			}}},
			VolumeMounts: []corev1.VolumeMount{
				{Name: "etc", MountPath: "/etc/sqlstore"}, {Name: "data", MountPath: "/var/lib/sqlstore"},
			},
		}},
		Volumes: []corev1.Volume{
			{Name: "etc", VolumeSource: directory("/etc/sqlstore")},
			{Name: "data", VolumeSource: directory("/var/lib/sqlstore")},
		},
	}, nil, "", "")
	config := c.replace.Replace(read(t, "node/sqlstore.yaml"))
	if err := os.WriteFile(filepath.Join(c.root, file), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	accepts(t, c)
	c.start()
	for name, launcher := range map[string]store{
		"k3s": k3sStore(t), "k0s": k0sStore(t), "kubeadm": kubeadmStore(t),
	} {
		t.Run(name, func(t *testing.T) { c.connects(t, launcher) })
	}
}

// connects fails the test unless a client with the launcher's address and files can write.
func (c *container) connects(t *testing.T, s store) {
	t.Helper()
	var endpoints []string
	for _, e := range s.endpoints {
		endpoints = append(endpoints, c.replace.Replace(e))
	}
	pair, err := tls.LoadX509KeyPair(c.replace.Replace(s.cert), c.replace.Replace(s.key))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(c.replace.Replace(s.ca))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	client, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, Logger: zap.NewNop(),
		TLS: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{pair}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	if _, err := client.Put(ctx, "/registry/a", "1"); err != nil {
		t.Error(err)
	}
}

// kubeadm itself accepts its files, and refuses another.
func TestKubeadm(t *testing.T) {
	validate := func(path string) (string, error) {
		cmd := exec.CommandContext(t.Context(), programs.Kubeadm.Path(t), "config", "validate", "--config", path)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, name := range []string{"external", "local"} {
		if out, err := validate(deployed(t, "kubeadm/"+name+".yaml")); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	wrong := filepath.Join(t.TempDir(), "wrong.yaml")
	text := strings.Replace(read(t, "kubeadm/external.yaml"), "caFile", "ca", 1)
	if err := os.WriteFile(wrong, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := validate(wrong); err == nil {
		t.Errorf("kubeadm accepts an unknown field: %s", out)
	}
}

// The drop-in names the unit of the packages.
func TestDropIn(t *testing.T) {
	options, err := unit.DeserializeOptions(strings.NewReader(read(t, "node/after-sqlstore.conf")))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, o := range options {
		got[o.Section+"."+o.Name] = o.Value
	}
	for _, name := range []string{"Unit.Wants", "Unit.After"} {
		if got[name] == "" {
			t.Errorf("no %s in %v", name, got)
			continue
		}
		if _, err := os.Stat(deployed(t, "../packaging/"+got[name])); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
