// Command storagedata prints, as JSON, the objects of every kind that Kubernetes' own test of its storage creates.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/test/integration/etcd"
)

// object is an object to create, and where kube-apiserver stores it.
type object struct {
	Resource schema.GroupVersionResource
	Stub     string
	Path     string
	Before   []object // what must exist first
}

func main() {
	var all []object
	for resource, data := range etcd.GetEtcdStorageDataForNamespace(os.Args[1]) {
		o := object{Resource: resource, Stub: data.Stub, Path: data.ExpectedEtcdPath}
		for _, p := range data.Prerequisites {
			o.Before = append(o.Before, object{Resource: p.GvrData, Stub: p.Stub})
		}
		all = append(all, o)
	}
	for _, crd := range etcd.GetCustomResourceDefinitionData() {
		stub, err := json.Marshal(crd)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		all = append(all, object{
			Resource: v1.SchemeGroupVersion.WithResource("customresourcedefinitions"), Stub: string(stub),
			Path: "/registry/apiextensions.k8s.io/customresourcedefinitions/" + crd.Name,
		})
	}
	if err := json.NewEncoder(os.Stdout).Encode(all); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
