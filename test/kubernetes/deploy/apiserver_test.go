package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"

	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
	"github.com/sqlstore/sqlstore/test/programs"
)

// servedTimeout limits the wait until the API of a new definition is served: it takes a second.
const servedTimeout = time.Minute

// validator asks a kube-apiserver whether it would accept objects.
type validator struct {
	*testing.T
	cluster *cluster.Cluster
	mapper  *restmapper.DeferredDiscoveryRESTMapper
}

// startCluster starts a kube-apiserver that knows the chart's kinds.
func startCluster(t *testing.T) *validator {
	t.Helper()
	c := cluster.Start(t, cluster.StartSQLStore(t), cluster.Config{WatchCache: true})
	client, err := discovery.NewDiscoveryClientForConfig(c.REST)
	if err != nil {
		t.Fatal(err)
	}
	v := &validator{t, c, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))}
	for _, d := range definitions(t) {
		if err := v.create(d, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return v
}

// definitions returns those of cert-manager and of Prometheus' operator.
func definitions(t *testing.T) (all objects) {
	t.Helper()
	path := programs.Definitions.Path(t)
	cmd := exec.CommandContext(t.Context(), path)
	cmd.Dir = filepath.Dir(path)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("definitions: %v\n%s", err, &stderr)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var typed apiextensionsv1.CustomResourceDefinition
		err := d.Decode(&typed)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&typed)
		if err != nil {
			t.Fatal(err)
		}
		delete(content, "status") // of the type's zero value
		all = append(all, &unstructured.Unstructured{Object: content})
	}
}

// create creates an object in the namespace, as soon as its kind is served.
func (v *validator) create(o *unstructured.Unstructured, options metav1.CreateOptions) error {
	v.Helper()
	gvk := o.GroupVersionKind()
	var mapping *meta.RESTMapping
	if err := wait.PollUntilContextTimeout(v.Context(), 50*time.Millisecond, servedTimeout, true,
		func(context.Context) (served bool, err error) {
			if mapping, err = v.mapper.RESTMapping(gvk.GroupKind(), gvk.Version); err != nil {
				v.mapper.Reset()
			}
			return err == nil, nil
		}); err != nil {
		return fmt.Errorf("the kind %s is not served: %w", gvk, err)
	}
	in := ""
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if in = o.GetNamespace(); in == "" {
			in = namespace
		}
	}
	options.FieldValidation = metav1.FieldValidationStrict
	_, err := v.cluster.Dynamic.Resource(mapping.Resource).Namespace(in).Create(v.Context(), o, options)
	return err
}

// validate fails the test if an object, or a Pod of it, would be refused.
func (v *validator) validate(t *testing.T, all objects) {
	t.Helper()
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	for _, o := range all {
		if err := v.create(o, dryRun); err != nil {
			t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}

// A kube-apiserver accepts what the chart makes, and no Pod needs more than the Pod Security Standard "restricted".
func TestDryRun(t *testing.T) {
	v := startCluster(t)
	// The namespace admits no Pod beyond the standard.
	if _, err := v.cluster.Clients.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{
			Name: namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eachRendering(t, func(t *testing.T, all objects) {
		template, _ := all.workload(t)
		pod := &corev1.Pod{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Name: "pod", Labels: template.Labels}, Spec: template.Spec,
		}
		// The StatefulSet's controller adds the claims.
		pod.Spec.Volumes = append(pod.Spec.Volumes, claims(t, all)...)
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
		if err != nil {
			t.Fatal(err)
		}
		v.validate(t, append(all, &unstructured.Unstructured{Object: content}))
	})

	t.Run("static Pod", func(t *testing.T) {
		v.validate(t, decode(t, read(t, "static-pod/sqlstore.yaml")))
	})

	// It does refuse others.
	wrong := render(t, "--values", "testdata/values/sqlite.yaml")
	for _, o := range wrong {
		if o.GetKind() == "Service" {
			o.Object["spec"].(map[string]any)["selectors"] = "x"
			if err := v.create(o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err == nil ||
				!strings.Contains(err.Error(), "selectors") {
				t.Errorf("an unknown field: %v", err)
			}
		}
	}
}
