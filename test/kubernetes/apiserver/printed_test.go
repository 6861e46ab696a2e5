package apiserver_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
	"github.com/sqlstore/sqlstore/test/programs"
)

// storageNamespace is where the objects of every kind are.
const storageNamespace = "every-kind"

// gates turns on the kinds that are off by default.
const gates = "ClusterTrustBundle=true,PodCertificateRequest=true,GenericWorkload=true,StorageVersionMigrator=true"

// stored is an object of Kubernetes' own test of its storage; see command storagedata.
type stored struct {
	Resource schema.GroupVersionResource
	Stub     string
	Path     string
	Before   []stored
}

// TestPrintsWhatKubectlPrints creates an object of every kind in Kubernetes' test/integration/etcd/data.go. What
// `sqlstore get` prints of each is what `kubectl get -o yaml` prints.
func TestPrintsWhatKubectlPrints(t *testing.T) {
	store := cluster.StartStore(t)
	c := cluster.Start(t, store, cluster.Config{Args: []string{
		"--runtime-config=api/all=true", "--feature-gates=" + gates,
	}})
	k := kinds{t: t, c: c, resources: map[schema.GroupVersionResource]metav1.APIResource{}}
	c.Kubectl(t, nil, "create", "namespace", storageNamespace)
	k.discover()
	compared := 0
	for _, o := range storageData(t) {
		for _, before := range o.Before {
			k.create(before)
		}
		k.discover() // an object before may be a definition
		if _, served := k.resources[o.Resource]; !served {
			t.Logf("%v is not served", o.Resource)
			continue
		}
		name := k.create(o)
		if name == "" {
			continue
		}
		printed, want, err := k.printed(store, o, name)
		if err != nil {
			t.Errorf("%s: %v", o.Path, err)
			continue
		}
		compared++
		if printed != want {
			t.Errorf("%s: sqlstore prints\n%s\nkubectl\n%s", o.Path, printed, want)
		}
	}
	t.Logf("%d objects", compared)
	if compared < 60 {
		t.Errorf("%d objects, want those of every kind", compared)
	}
}

// printed returns what sqlstore and kubectl print of an object at one revision: controllers may change it meanwhile.
func (k *kinds) printed(store cluster.Store, o stored, name string) (ours, kubectls string, err error) {
	get := func() string {
		out, errGet := exec.CommandContext(k.t.Context(), launch.Binary(k.t), "get", o.Path, "--endpoint",
			store.ClientURL()).CombinedOutput()
		if errGet != nil {
			err = fmt.Errorf("sqlstore get: %w: %s", errGet, out)
		}
		return string(out)
	}
	for again := get(); err == nil && again != ours; again = get() {
		ours = again
		kubectls, err = k.c.TryKubectl(k.t, nil, "-n", storageNamespace, "get", k.asPrinted(o.Resource, ours), name,
			"-o", "yaml")
	}
	return ours, kubectls, err
}

// storageData returns the objects, definitions first, because others are of kinds that they define.
func storageData(t *testing.T) (all []stored) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), programs.StorageData.Path(t), storageNamespace).Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &all); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all, func(a, b stored) int {
		return strings.Compare(a.Resource.String(), b.Resource.String())
	})
	return all
}

// kinds creates objects of any kind.
type kinds struct {
	t         *testing.T
	c         *cluster.Cluster
	resources map[schema.GroupVersionResource]metav1.APIResource
}

// discover asks which resources are served.
func (k *kinds) discover() {
	k.t.Helper()
	_, lists, err := k.c.Clients.Discovery().ServerGroupsAndResources()
	if err != nil {
		k.t.Logf("discovery: %v", err)
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			k.t.Fatal(err)
		}
		for i := range list.APIResources {
			k.resources[gv.WithResource(list.APIResources[i].Name)] = list.APIResources[i]
		}
	}
}

// create creates an object and returns its name, "" if that failed. It may exist in another version.
func (k *kinds) create(o stored) string {
	k.t.Helper()
	r := k.resources[o.Resource]
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(o.Stub), &object.Object); err != nil {
		k.t.Fatalf("%v: %v", o.Resource, err)
	}
	object.SetGroupVersionKind(o.Resource.GroupVersion().WithKind(r.Kind))
	client := k.c.Dynamic.Resource(o.Resource)
	var err error
	if r.Namespaced {
		_, err = client.Namespace(storageNamespace).Create(k.t.Context(), object, metav1.CreateOptions{})
	} else {
		_, err = client.Create(k.t.Context(), object, metav1.CreateOptions{})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		k.t.Errorf("create %v %s: %v", o.Resource, object.GetName(), err)
		return ""
	}
	if r.Kind == "CustomResourceDefinition" {
		awaitEstablished(k.t, k.c, "crd", object.GetName())
	}
	return object.GetName()
}

// asPrinted returns the argument with which kubectl asks for the version that sqlstore prints, which is the stored one.
func (k *kinds) asPrinted(r schema.GroupVersionResource, printed string) string {
	_, after, _ := strings.Cut(printed, "apiVersion: ")
	apiVersion, _, _ := strings.Cut(after, "\n")
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		k.t.Fatal(err)
	}
	return fmt.Sprintf("%s.%s.%s", r.Resource, gv.Version, gv.Group) // ends in a dot for the core group
}
