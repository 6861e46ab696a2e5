package edge

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// TestEdge schedules a Deployment onto the nodes that kwok plays. It is there after a kill and after a stop, with the
// same certificates, and the controllers and the scheduler go on.
func TestEdge(t *testing.T) {
	p := newPlane(t)
	p.start()
	p.kwok()
	p.demo()
	clients := p.clients()
	awaitPods(t, clients, 10)
	out := p.kubectl("get", "deployment", "hello")
	if fields := strings.Fields(out); !slices.Contains(fields, "10/10") {
		t.Errorf("kubectl prints\n%s", out)
	}
	if out := p.kubectl("get", "nodes", "--no-headers"); strings.Count(out, " Ready ") != 3 {
		t.Errorf("kubectl prints\n%s", out)
	}
	before, files := state(t, clients), credentials(t, p.dir)
	if _, err := os.Stat(filepath.Join(p.dir, "sqlstore.db")); err != nil {
		t.Error(err)
	}

	p.end(t, syscall.SIGKILL)
	p.start()
	compare(t, before, state(t, clients))
	if got := credentials(t, p.dir); got != files {
		t.Error("the certificates or keys changed")
	}
	p.kubectl("scale", "deployment", "hello", "--replicas", "12")
	awaitPods(t, clients, 12)

	before = state(t, clients)
	if ended := p.end(t, syscall.SIGTERM); !ended.Success() {
		t.Errorf("after SIGTERM: %v", ended)
	}
	p.start()
	compare(t, before, state(t, clients))
	p.kubectl("scale", "deployment", "hello", "--replicas", "3")
	awaitPods(t, clients, 3)
}

// A second control plane on the same directory is refused, and leaves the first alone.
func TestDirectoryInUse(t *testing.T) {
	p := newPlane(t)
	p.start()
	second := *p
	second.process = start(t, binary(t), p.args...)
	second.expected = true
	select {
	case <-second.done:
	case <-time.After(timeout):
		t.Fatal("the second one runs")
	}
	if second.cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("the second one: %v", second.cmd.ProcessState)
	}
	p.kubectl("create", "namespace", "still-here")
}

// TestComponentFails takes the port of kube-apiserver: the process ends with an error, and does not go on without it.
func TestComponentFails(t *testing.T) {
	p := newPlane(t)
	p.start()
	other := newPlane(t)
	other.args = append(other.args, p.args[2:4]...) // --listen
	other.process = start(t, binary(t), other.args...)
	other.expected = true
	select {
	case <-other.done:
	case <-time.After(timeout):
		t.Fatal("it runs")
	}
	if other.cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("it ended with %v", other.cmd.ProcessState)
	}
	if content, err := os.ReadFile(other.log); err != nil || !strings.Contains(string(content), "kube-apiserver") {
		t.Errorf("the error does not name the component: %s, %v", content, err)
	}
}

// awaitPods waits until the Deployment has n Pods, all ready.
func awaitPods(t testing.TB, clients kubernetes.Interface, n int32) {
	t.Helper()
	var last *appsv1.Deployment
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, timeout, true,
		func(ctx context.Context) (_ bool, err error) {
			last, err = clients.AppsV1().Deployments("default").Get(ctx, "hello", metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			s := last.Status
			return s.ObservedGeneration == last.Generation && s.ReadyReplicas == n && s.Replicas == n, nil
		})
	if err != nil {
		t.Fatalf("the Deployment: %v, %+v", err, last)
	}
}

// state returns the uid of each node, Pod and Deployment by name.
func state(t *testing.T, clients kubernetes.Interface) map[string]string {
	t.Helper()
	all := map[string]string{}
	nodes, err := clients.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range nodes.Items {
		all["node "+o.Name] = string(o.UID)
	}
	pods, err := clients.CoreV1().Pods(corev1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range pods.Items {
		all["pod "+o.Name+" on "+o.Spec.NodeName] = string(o.UID)
	}
	deployments, err := clients.AppsV1().Deployments(corev1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range deployments.Items {
		all["deployment "+o.Name] = string(o.UID)
	}
	return all
}

func compare(t *testing.T, before, after map[string]string) {
	t.Helper()
	for name, uid := range before {
		if after[name] != uid {
			t.Errorf("%s is %q after the restart, was %q", name, after[name], uid)
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d objects after the restart, want %d", len(after), len(before))
	}
}

// credentials returns the contents of all files with certificates and keys.
func credentials(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	for _, pattern := range []string{"*.pem", "*.crt", "*.key", "*.kubeconfig"} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		for _, path := range paths {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(content)
		}
	}
	return all.String()
}
