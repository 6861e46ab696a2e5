// Package programs builds the programs of others that the suites run, from pinned versions, and keeps them in the
// user's cache directory, because linking them takes up to minutes.
//
// Each file in modules is the go.mod of a module without code that names programs as tools. Such a module selects the
// dependencies with which the programs were released; those of sqlstore must not change them. To choose another
// version, change it in a directory of its own:
//
//	cp modules/kwok.mod /tmp/kwok/go.mod && cp modules/kwok.sum /tmp/kwok/go.sum
//	cd /tmp/kwok && go get sigs.k8s.io/kwok@latest && go mod tidy
//
// and copy both files back. For modules/kubernetes.mod, testdata/storagedata belongs into that directory, too; for
// modules/definitions.mod, testdata/definitions.
//
// etcd's etcdctl and etcdutl are tools of the suites' own module.
package programs

import "strings"

// Program says which command to build.
type Program struct {
	// Name is the file name of the binary.
	Name string
	// Package is the import path of the command. One that begins with "./" is a directory in testdata.
	Package string
	// Module is the module whose version is part of the binary's cache path and is passed to Stamp.
	Module string
	// File names the file in modules to build with, without its extension. "" is the suites' own go.mod.
	File string
	// Stamp returns the linker's -X settings ("name=value") for the module's version; may be nil.
	Stamp func(version string) []string
}

// The programs that the suites run.
var (
	APIServer         = kubernetes("kube-apiserver")
	ControllerManager = kubernetes("kube-controller-manager")
	Scheduler         = kubernetes("kube-scheduler")
	Kubectl           = kubernetes("kubectl")
	Kubeadm           = kubernetes("kubeadm")
	// StorageData prints the objects of Kubernetes' own test of its storage.
	StorageData = Program{
		Name: "storagedata", Package: "./storagedata", Module: "k8s.io/kubernetes", File: "kubernetes",
	}
	Etcd = Program{
		Name: "etcd", Package: "go.etcd.io/etcd/server/v3", Module: "go.etcd.io/etcd/server/v3", File: "etcd",
	}
	Etcdctl = etcdTool("etcdctl")
	Etcdutl = etcdTool("etcdutl")
	// Definitions prints the CustomResourceDefinitions of cert-manager and Prometheus' operator that the Helm chart
	// uses. It runs in the directory of its binary.
	Definitions = Program{
		Name: "definitions", Package: "./definitions", Module: "sigs.k8s.io/controller-tools", File: "definitions",
	}
	Helm = Program{
		Name: "helm", Package: "helm.sh/helm/v4/cmd/helm", Module: "helm.sh/helm/v4", File: "helm", Stamp: stampHelm,
	}
	Kwok       = kwok("kwok")
	Kwokctl    = kwok("kwokctl")
	Litestream = Program{
		Name: "litestream", Package: "github.com/benbjohnson/litestream/cmd/litestream",
		Module: "github.com/benbjohnson/litestream", File: "litestream",
	}
	// VersityGW is an S3 server.
	VersityGW = Program{
		Name: "versitygw", Package: "github.com/versity/versitygw/cmd/versitygw",
		Module: "github.com/versity/versitygw", File: "versitygw",
	}
)

// Kine returns a version of kine: "0.11", "0.16" or "0.17".
func Kine(version string) Program {
	const module = "github.com/k3s-io/kine"
	return Program{Name: "kine", Package: module, Module: module, File: "kine-" + version}
}

func kwok(command string) Program {
	const module = "sigs.k8s.io/kwok"
	return Program{Name: command, Package: module + "/cmd/" + command, Module: module, File: "kwok"}
}

func etcdTool(name string) Program {
	module := "go.etcd.io/etcd/" + name + "/v3"
	return Program{Name: name, Package: module, Module: module}
}

func kubernetes(command string) Program {
	return Program{
		Name:    command,
		Package: "k8s.io/kubernetes/cmd/" + command,
		Module:  "k8s.io/kubernetes",
		File:    "kubernetes",
		Stamp:   stampKubernetes,
	}
}

// stampKubernetes sets what Kubernetes' own build sets: otherwise kube-apiserver considers itself v0.0.0-master and
// refuses to emulate that version.
func stampKubernetes(version string) []string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	var settings []string
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		settings = append(settings,
			pkg+".gitVersion="+version, pkg+".gitMajor="+parts[0], pkg+".gitMinor="+parts[1])
	}
	return settings
}

func stampHelm(version string) []string {
	return []string{"helm.sh/helm/v4/internal/version.version=" + version}
}
