package deploy

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/sqlstore/sqlstore/internal/testing/authority"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
)

// container is the only container of a Pod, with its volumes in a directory of the test and free ports.
type container struct {
	*testing.T
	spec corev1.Container
	// ca signs the certificates in every Secret.
	ca      *authority.Authority
	root    string // the container's file system
	ports   map[string]string
	empty   []string          // the directories of emptyDir volumes, which a new Pod gets anew
	secret  map[string]string // what every Secret, ConfigMap and directory of certificates holds
	replace *strings.Replacer
}

// claims are the volumes that the claims of a StatefulSet become.
func claims(t *testing.T, all objects) (volumes []corev1.Volume) {
	t.Helper()
	for _, s := range of[appsv1.StatefulSet](t, all, "StatefulSet") {
		for _, c := range s.Spec.VolumeClaimTemplates {
			claim := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c.Name + "-" + s.Name + "-0"}
			volumes = append(volumes, corev1.Volume{
				Name: c.Name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: claim},
			})
		}
	}
	return volumes
}

// prepare mounts the volumes. dsn and password are those of a Postgres, if the Pod uses one.
func prepare(t *testing.T, pod *corev1.PodSpec, volumes []corev1.Volume, dsn, password string) *container {
	t.Helper()
	if len(pod.Containers) != 1 || len(pod.InitContainers) != 0 {
		t.Fatalf("not a Pod of one container: %+v", pod)
	}
	c := &container{T: t, spec: pod.Containers[0], ca: authority.New(t), root: t.TempDir(), ports: map[string]string{}}
	cert, key := c.ca.Issue("server")
	client, clientKey := c.ca.Issue("client")
	c.secret = map[string]string{
		"ca.crt": string(c.ca.PEM()), "tls.crt": string(cert), "tls.key": string(key),
		"server.crt": string(cert), "server.key": string(key),
		"client.crt": string(client), "client.key": string(clientKey),
		"password": password, "pass": password, "uri": dsn, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key",
	}
	mounted := map[string]corev1.Volume{}
	for _, v := range slices.Concat(pod.Volumes, volumes) {
		mounted[v.Name] = v
	}
	var paths []string
	for _, m := range c.spec.VolumeMounts {
		v, ok := mounted[m.Name]
		if !ok {
			t.Fatalf("no volume %s", m.Name)
		}
		c.fill(filepath.Join(c.root, m.MountPath), v)
		if v.EmptyDir != nil {
			c.empty = append(c.empty, filepath.Join(c.root, m.MountPath))
		}
		paths = append(paths, m.MountPath)
	}
	// Of two paths that begin alike, the longer one comes first.
	slices.SortFunc(paths, func(a, b string) int { return len(b) - len(a) })
	var oldnew []string
	for _, path := range paths {
		oldnew = append(oldnew, path, filepath.Join(c.root, path))
	}
	for _, port := range []string{"client", "metrics"} {
		address, err := launch.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		c.ports[port] = address
	}
	for _, p := range c.spec.Ports {
		_, free, err := net.SplitHostPort(c.ports[p.Name])
		if err != nil {
			t.Fatal(err)
		}
		// On the interfaces of the Pod: what the server demands and allows depends on them.
		for _, host := range []string{"0.0.0.0", "127.0.0.1"} {
			oldnew = append(oldnew,
				net.JoinHostPort(host, strconv.Itoa(int(p.ContainerPort))), net.JoinHostPort(host, free))
		}
	}
	c.replace = strings.NewReplacer(oldnew...)
	return c
}

// fill writes the files of a volume: those that it names, or all.
func (c *container) fill(dir string, v corev1.Volume) {
	c.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		c.Fatal(err)
	}
	var items []corev1.KeyToPath
	switch {
	case v.Secret != nil:
		items = v.Secret.Items
	case v.ConfigMap != nil:
		items = v.ConfigMap.Items
	case v.HostPath != nil && strings.HasPrefix(v.HostPath.Path, "/etc/"): // of certificates
	default:
		return
	}
	if len(items) == 0 {
		for key := range c.secret {
			items = append(items, corev1.KeyToPath{Key: key, Path: key})
		}
	}
	for _, item := range items {
		content, ok := c.secret[item.Key]
		if !ok {
			c.Fatalf("the volume %s has no key %s", v.Name, item.Key)
		}
		if err := os.WriteFile(filepath.Join(dir, item.Path), []byte(content), 0o600); err != nil {
			c.Fatal(err)
		}
	}
}

// forget empties what does not outlive a Pod.
func (c *container) forget() {
	c.Helper()
	for _, dir := range c.empty {
		if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
			c.Fatal(err)
		}
	}
}

// environment returns the container's variables.
func (c *container) environment() (all []string) {
	c.Helper()
	for _, e := range c.spec.EnvFrom {
		for _, key := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
			all = append(all, e.Prefix+key+"="+c.secret[key])
		}
	}
	for _, e := range c.spec.Env {
		value := c.replace.Replace(e.Value)
		switch from := e.ValueFrom; {
		case from == nil:
		case from.SecretKeyRef != nil:
			value = c.secret[from.SecretKeyRef.Key]
		case from.FieldRef != nil && from.FieldRef.FieldPath == "metadata.name":
			value = podName
		default:
			c.Fatalf("the variable %s comes from %+v", e.Name, from)
		}
		all = append(all, e.Name+"="+value)
	}
	return all
}

const podName = "main-sqlstore-0"

// arguments returns the container's arguments, as a kubelet passes them.
func (c *container) arguments() (all []string) {
	c.Helper()
	for _, a := range c.spec.Args {
		expanded := a
		for _, e := range c.environment() {
			name, value, _ := strings.Cut(e, "=")
			expanded = strings.ReplaceAll(expanded, "$("+name+")", value)
		}
		all = append(all, c.replace.Replace(expanded))
	}
	return all
}
