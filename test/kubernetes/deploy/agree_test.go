package deploy

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// Selectors select the Pods, ports exist, and names that one object has of another are right.
func TestObjectsAgree(t *testing.T) {
	eachRendering(t, func(t *testing.T, all objects) {
		pod, selector := all.workload(t)
		selects := func(what string, s map[string]string) {
			t.Helper()
			if len(s) == 0 || !labels.SelectorFromSet(s).Matches(labels.Set(pod.Labels)) {
				t.Errorf("%s selects %v, the Pods have %v", what, s, pod.Labels)
			}
		}
		ports := map[string]int32{}
		for _, p := range pod.Spec.Containers[0].Ports {
			ports[p.Name] = p.ContainerPort
		}
		exists := func(what string, port intstr.IntOrString) {
			t.Helper()
			if ports[port.StrVal] == 0 {
				t.Errorf("%s has the port %s, the Pods have %v", what, port.String(), ports)
			}
		}
		selects("the workload", selector)
		services := map[string]*corev1.Service{}
		for _, s := range of[corev1.Service](t, all, "Service") {
			services[s.Name] = s
			selects("Service "+s.Name, s.Spec.Selector)
			for _, p := range s.Spec.Ports {
				exists("Service "+s.Name, p.TargetPort)
			}
		}
		for _, s := range of[appsv1.StatefulSet](t, all, "StatefulSet") {
			governing := services[s.Spec.ServiceName]
			if governing == nil || governing.Spec.ClusterIP != corev1.ClusterIPNone {
				t.Errorf("no headless Service %s", s.Spec.ServiceName)
			}
			if *s.Spec.Replicas != 1 || len(s.Spec.VolumeClaimTemplates) != 1 {
				t.Errorf("%d replicas, %d claims", *s.Spec.Replicas, len(s.Spec.VolumeClaimTemplates))
			}
		}
		budgets := of[policyv1.PodDisruptionBudget](t, all, "PodDisruptionBudget")
		for _, b := range budgets {
			selects("PodDisruptionBudget", b.Spec.Selector.MatchLabels)
		}
		deployments := of[appsv1.Deployment](t, all, "Deployment")
		if several := len(deployments) == 1 && *deployments[0].Spec.Replicas > 1; several != (len(budgets) == 1) {
			t.Errorf("%d budgets, although several replicas is %t", len(budgets), several)
		}
		for _, n := range of[networkingv1.NetworkPolicy](t, all, "NetworkPolicy") {
			selects("NetworkPolicy", n.Spec.PodSelector.MatchLabels)
			for _, rule := range n.Spec.Ingress {
				if len(rule.From) == 0 {
					t.Error("the NetworkPolicy admits everybody")
				}
				for _, p := range rule.Ports {
					exists("NetworkPolicy", *p.Port)
				}
			}
		}
		for _, p := range []*corev1.Probe{
			pod.Spec.Containers[0].LivenessProbe, pod.Spec.Containers[0].ReadinessProbe,
		} {
			exists("a probe", p.HTTPGet.Port)
		}
		account := pod.Spec.ServiceAccountName
		if !slices.ContainsFunc(of[corev1.ServiceAccount](t, all, "ServiceAccount"),
			func(a *corev1.ServiceAccount) bool { return a.Name == account }) {
			t.Errorf("no ServiceAccount %s", account)
		}
		for _, c := range kind(all, "Certificate") {
			secret, _, _ := unstructured.NestedString(c.Object, "spec", "secretName")
			if secret != c.GetName() {
				t.Errorf("Certificate %s makes the Secret %s", c.GetName(), secret)
			}
			mounted := slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
				return v.Secret != nil && v.Secret.SecretName == secret
			})
			if strings.HasSuffix(secret, "-server") && !mounted {
				t.Errorf("the Pods do not mount %s", secret)
			}
		}
	})
}

// The server's certificate has the name that the server advertises.
func TestCertificateNames(t *testing.T) {
	all := render(t, "--values", "testdata/values/cert-manager.yaml")
	pod, _ := all.workload(t)
	advertised := regexp.MustCompile(`^--advertise-client-urls=https://([^:]+):`)
	for _, arg := range pod.Spec.Containers[0].Args {
		if m := advertised.FindStringSubmatch(arg); m != nil {
			names, _, _ := unstructured.NestedStringSlice(kind(all, "Certificate")[0].Object, "spec", "dnsNames")
			if !slices.Contains(names, m[1]) {
				t.Errorf("no %s among %q", m[1], names)
			}
			return
		}
	}
	t.Errorf("no advertised URL in %q", pod.Spec.Containers[0].Args)
}

// Prometheus scrapes each Pod once, under a job that etcd's mixin finds and that the alerts name.
func TestMonitoring(t *testing.T) {
	for _, values := range []string{"sqlite", "postgres"} {
		all := render(t, "--values", "testdata/values/"+values+".yaml", "--set",
			"metrics.serviceMonitor.enabled=true,metrics.prometheusRule.enabled=true")
		monitor := kind(all, "ServiceMonitor")[0]
		var spec struct {
			JobLabel  string
			Selector  metav1.LabelSelector
			Endpoints []struct{ Port string }
		}
		convert(t, monitor, &spec)
		selector, err := metav1.LabelSelectorAsSelector(&spec.Selector)
		if err != nil {
			t.Fatal(err)
		}
		var scraped []*corev1.Service
		for _, s := range of[corev1.Service](t, all, "Service") {
			if selector.Matches(labels.Set(s.Labels)) {
				scraped = append(scraped, s)
			}
		}
		if len(scraped) != 1 {
			t.Fatalf("%s: %d Services are scraped", values, len(scraped))
		}
		if !slices.ContainsFunc(scraped[0].Spec.Ports, func(p corev1.ServicePort) bool {
			return p.Name == spec.Endpoints[0].Port
		}) {
			t.Errorf("the Service has no port %s", spec.Endpoints[0].Port)
		}
		job := scraped[0].Labels[spec.JobLabel]
		if !strings.Contains(job, "etcd") {
			t.Errorf("the job is %q, which etcd's mixin does not find", job)
		}
		testRules(t, all, job)
	}
}

// testRules compares the rules with those of deploy/monitoring: only the job differs.
func testRules(t *testing.T, all objects, job string) {
	t.Helper()
	text, err := os.ReadFile(deployed(t, "monitoring/rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	named := strings.ReplaceAll(string(text), `job="sqlstore"`, `job="`+job+`",namespace="`+namespace+`"`)
	if named == string(text) {
		t.Fatal("no rule of deploy/monitoring/rules.yaml names a job")
	}
	var want, got struct{ Groups []any }
	if err := yaml.UnmarshalStrict([]byte(named), &want); err != nil {
		t.Fatal(err)
	}
	convert(t, kind(all, "PrometheusRule")[0], &got)
	wantText, gotText := marshal(t, want), marshal(t, got)
	if len(want.Groups) == 0 || wantText != gotText {
		t.Errorf("the chart's rules differ from deploy/monitoring/rules.yaml:\n%s\nwant\n%s", gotText, wantText)
	}
}

// Nobody mounts a token, and all Pods with the labels of a release are of one workload.
func TestPodsHaveNoToken(t *testing.T) {
	eachRendering(t, func(t *testing.T, all objects) {
		pod, _ := all.workload(t)
		if mount := pod.Spec.AutomountServiceAccountToken; mount == nil || *mount {
			t.Error("the Pod mounts a token")
		}
	})
}

// Two releases in a namespace share no name and no Pod.
func TestReleasesAreApart(t *testing.T) {
	names := func(release string) (all map[string]bool, selector map[string]string) {
		text, err := helm(t, "template", release, deployed(t, "helm/sqlstore"), "--values",
			"testdata/values/cert-manager.yaml")
		if err != nil {
			t.Fatal(err)
		}
		all = map[string]bool{}
		objects := decode(t, text)
		for _, o := range objects {
			all[o.GetKind()+" "+o.GetName()] = true
		}
		_, selector = objects.workload(t)
		return all, selector
	}
	first, one := names("first")
	second, two := names("second")
	for name := range first {
		if second[name] {
			t.Errorf("both have %s", name)
		}
	}
	if maps.Equal(one, two) {
		t.Errorf("both select %v", one)
	}
}

func kind(all objects, kind string) (found objects) {
	for _, o := range all {
		if o.GetKind() == kind {
			found = append(found, o)
		}
	}
	return found
}

// convert reads the spec of an object.
func convert(t *testing.T, o *unstructured.Unstructured, spec any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(marshal(t, o.Object["spec"])), spec); err != nil {
		t.Fatal(err)
	}
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	text, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
