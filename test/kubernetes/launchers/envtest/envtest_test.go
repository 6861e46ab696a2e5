// Package envtest tests that controller-runtime's envtest can start sqlstore as its etcd.
package envtest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/programs"
)

// startTimeout limits the start of a server, and its stop.
const startTimeout = 2 * time.Minute

// assets returns a directory with the programs that envtest starts.
func assets(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, path := range map[string]string{
		"etcd":           launch.Binary(t),
		"kube-apiserver": programs.APIServer.Path(t),
		"kubectl":        programs.Kubectl.Path(t),
	} {
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// widgets is a custom resource, which most users of envtest have.
func widgets() *apiextensions.CustomResourceDefinition {
	preserve := true
	return &apiextensions.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.test.sqlstore.dev"},
		Spec: apiextensions.CustomResourceDefinitionSpec{
			Group: "test.sqlstore.dev",
			Names: apiextensions.CustomResourceDefinitionNames{
				Plural: "widgets", Kind: "Widget", ListKind: "WidgetList",
			},
			Scope: apiextensions.NamespaceScoped,
			Versions: []apiextensions.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensions.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensions.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve},
				},
			}},
		},
	}
}

func widget(name string) *unstructured.Unstructured {
	w := &unstructured.Unstructured{}
	w.SetAPIVersion("test.sqlstore.dev/v1")
	w.SetKind("Widget")
	w.SetNamespace("default")
	w.SetName(name)
	return w
}

// TestEnvironment starts an environment as a controller's tests do: with a custom resource, of which it creates,
// watches, updates and deletes an object. Stop fails if the store does not end on its signal.
func TestEnvironment(t *testing.T) {
	log.SetLogger(logr.Discard()) // it complains otherwise
	env := &envtest.Environment{
		BinaryAssetsDirectory:    assets(t),
		ControlPlaneStartTimeout: startTimeout,
		ControlPlaneStopTimeout:  startTimeout,
		CRDs:                     []*apiextensions.CustomResourceDefinition{widgets()},
	}
	cfg, err := env.Start()
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(env.ControlPlane.Etcd.DataDir, "*.db"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no database of sqlstore in %s: %v", env.ControlPlane.Etcd.DataDir, err)
	}
	c, err := client.NewWithWatch(cfg, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("test.sqlstore.dev/v1")
	list.SetKind("WidgetList")
	w, err := c.Watch(t.Context(), list, client.InNamespace("default"))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()

	o := widget("a")
	if err := c.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	old := o.DeepCopy()
	o.Object["spec"] = map[string]any{"size": int64(2)}
	if err := c.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	old.Object["spec"] = map[string]any{"size": int64(3)}
	if err := c.Update(t.Context(), old); err == nil {
		t.Error("an update from an old resource version succeeds")
	}
	if err := c.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for _, want := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
		if e := <-w.ResultChan(); e.Type != want {
			t.Errorf("event %+v, want %s", e, want)
		}
	}
	var namespaces corev1.NamespaceList
	if err := c.List(t.Context(), &namespaces); err != nil || len(namespaces.Items) == 0 {
		t.Errorf("%d namespaces, %v", len(namespaces.Items), err)
	}
}
