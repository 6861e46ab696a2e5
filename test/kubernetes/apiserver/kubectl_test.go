package apiserver_test

import (
	"strings"
	"testing"

	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
)

const manifest = `
apiVersion: v1
kind: Namespace
metadata:
  name: kubectl
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
  namespace: kubectl
data:
  color: COLOR
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: kubectl
spec:
  replicas: 1
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
      - name: web
        image: registry.example/web:1
`

// testKubectl uses kubectl as people do.
func testKubectl(t *testing.T, c *cluster.Cluster) {
	apply := func(color string, args ...string) string {
		t.Helper()
		text := strings.ReplaceAll(manifest, "COLOR", color)
		return c.Kubectl(t, strings.NewReader(text), append([]string{"apply", "-f", "-"}, args...)...)
	}
	kubectl := func(args ...string) string {
		t.Helper()
		return c.Kubectl(t, nil, append([]string{"-n", "kubectl"}, args...)...)
	}
	expect := func(want, got string) {
		t.Helper()
		if strings.TrimSpace(got) != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}

	expect("namespace/kubectl created\nconfigmap/settings created\ndeployment.apps/web created", apply("red"))
	expect("namespace/kubectl unchanged\nconfigmap/settings configured\ndeployment.apps/web unchanged", apply("green"))
	expect("green", kubectl("get", "configmap", "settings", "-o", "jsonpath={.data.color}"))
	apply("blue", "--server-side", "--force-conflicts")
	expect("blue", kubectl("get", "configmap", "settings", "-o", "jsonpath={.data.color}"))

	kubectl("patch", "configmap", "settings", "-p", `{"data":{"shape":"round"}}`)
	kubectl("label", "configmap", "settings", "tier=front")
	expect("configmap/settings", kubectl("get", "configmaps", "-l", "tier=front", "-o", "name"))
	expect("round", kubectl("get", "configmap", "settings", "-o", "jsonpath={.data.shape}"))
	kubectl("scale", "deployment", "web", "--replicas=3")
	expect("3", kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}"))
	kubectl("wait", "deployment", "web", "--for=jsonpath={.spec.replicas}=3", "--timeout=60s")

	kubectl("delete", "configmap", "settings") // waits until a watch shows the deletion
	_, err := c.TryKubectl(t, nil, "-n", "kubectl", "get", "configmap", "settings")
	if err == nil || !strings.Contains(err.Error(), "NotFound") {
		t.Errorf("get after delete: %v", err)
	}
	expect("namespace/kubectl", c.Kubectl(t, nil, "get", "namespace", "kubectl", "-o", "name", "--chunk-size=5"))
}
