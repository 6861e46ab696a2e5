package deploy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/sqlstore/sqlstore/internal/testing/pages"
	"github.com/sqlstore/sqlstore/test/programs"
)

// The release of every rendering, and its namespace.
const (
	release   = "main"
	namespace = "stores"
)

// deployed returns the path of a file of the directory deploy.
func deployed(t *testing.T, name string) string {
	t.Helper()
	return filepath.Join(pages.Root(t), "deploy", filepath.FromSlash(name))
}

// helm runs Helm, without the user's own settings.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), programs.Helm.Path(t), args...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("helm %s: %w: %s%s", strings.Join(args, " "), err, &stderr, &stdout)
	}
	return stdout.String(), nil
}

func template(t *testing.T, flags ...string) (string, error) {
	t.Helper()
	return helm(t, append([]string{"template", release, deployed(t, "helm/sqlstore"), "--namespace", namespace},
		flags...)...)
}

// render returns the objects that the chart makes.
func render(t *testing.T, flags ...string) objects {
	t.Helper()
	text, err := template(t, flags...)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, text)
}

// eachRendering runs f for each file in testdata/values, with what it renders.
func eachRendering(t *testing.T, f func(t *testing.T, all objects)) {
	t.Helper()
	files, err := filepath.Glob("testdata/values/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no values: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			f(t, render(t, "--values", file))
		})
	}
}

// objects are the documents of a manifest.
type objects []*unstructured.Unstructured

func decode(t *testing.T, text string) (all objects) {
	t.Helper()
	for d := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096); ; {
		o := &unstructured.Unstructured{}
		err := d.Decode(&o.Object)
		switch {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatalf("%v\n%s", err, text)
		case len(o.Object) > 0:
			all = append(all, o)
		}
	}
}

// of returns the objects of a kind, converted.
func of[T any](t *testing.T, all objects, kind string) (found []*T) {
	t.Helper()
	for _, o := range all {
		if o.GetKind() != kind {
			continue
		}
		x := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, x, true); err != nil {
			t.Fatalf("%s %s: %v", kind, o.GetName(), err)
		}
		found = append(found, x)
	}
	return found
}

// workload returns the Pods' template and the selector of the only workload.
func (all objects) workload(t *testing.T) (pod *corev1.PodTemplateSpec, selector map[string]string) {
	t.Helper()
	for _, o := range all {
		if kind := o.GetKind(); kind != "Deployment" && kind != "StatefulSet" {
			continue
		}
		if pod != nil {
			t.Fatalf("a second workload: %s %s", o.GetKind(), o.GetName())
		}
		content, _, err := unstructured.NestedMap(o.Object, "spec", "template")
		if err != nil {
			t.Fatal(err)
		}
		pod = &corev1.PodTemplateSpec{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(content, pod, true); err != nil {
			t.Fatal(err)
		}
		if selector, _, err = unstructured.NestedStringMap(o.Object, "spec", "selector", "matchLabels"); err != nil {
			t.Fatal(err)
		}
	}
	if pod == nil {
		t.Fatal("no workload")
	}
	return pod, selector
}

// Helm finds nothing to complain of.
func TestLint(t *testing.T) {
	files, err := filepath.Glob("testdata/values/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		out, err := helm(t, "lint", "--strict", deployed(t, "helm/sqlstore"), "--values", file)
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if strings.Contains(out, "[WARNING]") || strings.Contains(out, "[ERROR]") {
			t.Errorf("%s: %s", file, out)
		}
	}
}

// Values that cannot work are refused with what to do.
func TestRefusals(t *testing.T) {
	const dsn = "datastore.postgres.dsn=postgres://sqlstore@pg/sqlstore"
	for _, c := range []struct {
		set  []string
		want string
	}{
		{nil, "set one"},
		{[]string{"tls.plaintext=true", "tls.existingSecret=a"}, "2 of tls.existingSecret"},
		{[]string{"tls.plaintext=true", "replicas=2"}, "SQLite has one server"},
		{[]string{"tls.plaintext=true", dsn, "datastore.postgres.dsnSecret.name=a"}, "leave one of them empty"},
		{[]string{"tls.plaintext=true", "datastore.postgres.dsn=postgres://u:secret@pg/d"}, "passwordSecret"},
		{[]string{"tls.plaintext=true", "datastore.postgres.dsn=mysql://u@pg/d"}, "datastore/postgres/dsn"},
		{[]string{"tls.plaintext=true", "datastore.postgres.passwordSecret.name=a"}, "no address"},
		{[]string{
			"tls.plaintext=true", dsn, "datastore.postgres.ca.secret=a", "datastore.postgres.ca.configMap=a",
		}, "leave one of them empty"},
		{[]string{"tls.plaintext=true", dsn, "datastore.postgres.maxConnections=3"}, "maxConnections"},
		{[]string{"tls.certManager.enabled=true"}, "tls.certManager.issuerRef.name"},
		{[]string{"tls.existingSecret=a", "tls.certManager.clients={b}"}, "set tls.certManager.enabled"},
		{[]string{"tls.plaintext=true", "tls.clientCA.secret=a"}, "remove tls.clientCA"},
		{[]string{"tls.existingSecret=a", "tls.clientAuth=false", "tls.clientCA.secret=a"}, "remove tls.clientCA"},
		{[]string{"tls.plaintext=true", "metrics.prometheusRule.enabled=true"}, "name of the scrape job"},
		{[]string{"tls.plaintext=true", "metrics.port=2379"}, "metrics/port"},
		{[]string{"tls.plaintext=true", "backups.credentialsSecret=a"}, "set backups.to"},
		{[]string{"tls.plaintext=true", "backups.to=/backup"}, "extraVolumeMounts"},
		{[]string{"tls.plaintext=true", "backups.interval=often"}, "backups/interval"},
		{[]string{"tls.plaintext=true", "extraArgs={--data-dir=/x}"}, "use datastore.sqlite"},
		{[]string{"tls.plaintext=true", "extraArgs={--client-cert-auth}"}, "use tls.clientAuth"},
		{[]string{
			"tls.plaintext=true", "extraEnv[0].name=SQLSTORE_BACKUP_TO", "extraEnv[0].value=/x",
		}, "use backups.to"},
		{[]string{"tls.plaintext=true", "replica=3"}, "replica"},
		{[]string{"tls.plaintext=true", "terminationGracePeriodSeconds=5"}, "terminationGracePeriodSeconds"},
	} {
		var flags []string
		for _, s := range c.set {
			flags = append(flags, "--set", s)
		}
		if out, err := template(t, flags...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q\n%.500s", c.set, err, c.want, out)
		}
	}
}

// The version of the chart is that of the server.
func TestVersion(t *testing.T) {
	code, err := os.ReadFile(filepath.Join(pages.Root(t), "server.go"))
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^var Version = "(.*)"$`).FindSubmatch(code)
	if version == nil {
		t.Fatal("server.go has no version")
	}
	text, err := os.ReadFile(deployed(t, "helm/sqlstore/Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "\nappVersion: " + string(version[1]) + "\n"; !strings.Contains(string(text), want) {
		t.Errorf("no %q in\n%s", want, text)
	}
}
