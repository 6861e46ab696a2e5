// Command definitions prints the CustomResourceDefinitions of the kinds of others that the Helm chart makes, as JSON
// objects. It derives them from their Go types, as their projects do. It runs below the directory of its module.
package main

import (
	"encoding/json"
	"errors"
	"log"
	"os"

	_ "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	_ "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"golang.org/x/tools/go/packages"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-tools/pkg/crd"
	"sigs.k8s.io/controller-tools/pkg/crd/markers"
	"sigs.k8s.io/controller-tools/pkg/loader"
	base "sigs.k8s.io/controller-tools/pkg/markers"
)

var kinds = map[string][]schema.GroupKind{
	"github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1": {
		{Group: "cert-manager.io", Kind: "Certificate"},
	},
	"github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1": {
		{Group: "monitoring.coreos.com", Kind: "ServiceMonitor"},
		{Group: "monitoring.coreos.com", Kind: "PrometheusRule"},
	},
}

func main() {
	log.SetFlags(0)
	for path, of := range kinds {
		if err := printDefinitions(path, of); err != nil {
			log.Fatalf("definitions of %s: %v", path, err)
		}
	}
}

func printDefinitions(path string, kinds []schema.GroupKind) error {
	roots, err := loader.LoadRoots(path)
	if err != nil {
		return err
	}
	registry := &base.Registry{}
	if err := markers.Register(registry); err != nil {
		return err
	}
	parser := &crd.Parser{
		Collector: &base.Collector{Registry: registry}, Checker: &loader.TypeChecker{}, AllowDangerousTypes: true,
	}
	crd.AddKnownTypes(parser)
	for _, root := range roots {
		parser.NeedPackage(root)
	}
	var without int // descriptions are long
	out := json.NewEncoder(os.Stdout)
	for _, kind := range kinds {
		parser.NeedCRDFor(kind, &without)
		definition, ok := parser.CustomResourceDefinitions[kind]
		if !ok {
			return errors.New("no type for " + kind.String())
		}
		crd.FixTopLevelMetadata(definition)
		definition.APIVersion, definition.Kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
		if err := out.Encode(definition); err != nil {
			return err
		}
	}
	// The types that they import are not loaded, which fails to check.
	if loader.PrintErrors(roots, packages.TypeError) {
		return errors.New("the types cannot be parsed")
	}
	return nil
}
