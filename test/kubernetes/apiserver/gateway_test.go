package apiserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	applymeta "k8s.io/client-go/applyconfigurations/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	apply "sigs.k8s.io/gateway-api/applyconfiguration/apis/v1"
	"sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"
	typed "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned/typed/apis/v1"

	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/load"
)

const (
	gatewaysEach = 2  // in a namespace
	routesEach   = 30 // in a namespace
	controller   = "example.com/controller"
)

// testGatewayAPI installs the Gateway API's CRDs and does with its objects what a controller does. Statuses with the
// conditions of GEP-1364 are written by merge patches and by server-side apply, and each write produces an event.
// kube-apiserver refuses what the CRDs' rules forbid, and deletes the objects of a deleted CRD.
func testGatewayAPI(t *testing.T, c *cluster.Cluster) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	crds := gatewayCRDs(t)
	c.Kubectl(t, nil, "apply", "--server-side", "-f", crds)
	awaitEstablished(t, c, "crd", "--all")
	names, err := load.MakeNamespaces(ctx, c.Clients, "gateways", 4)
	if err != nil {
		t.Fatal(err)
	}
	clients, err := versioned.NewForConfig(c.REST)
	if err != nil {
		t.Fatal(err)
	}
	g := &gateways{
		GatewayV1Interface: clients.GatewayV1(), namespaces: names, gateways: newLedger(),
		routes: newLedger(),
	}
	gatewayEvents, routeEvents := g.watch(ctx, t)

	if err := g.create(ctx); err != nil {
		t.Fatal(err)
	}
	if err := g.reconcile(ctx); err != nil {
		t.Fatal(err)
	}
	if err := g.gateways.check(ctx, gatewayEvents, nil); err != nil {
		t.Errorf("watch of the gateways: %v", err)
	}
	if err := g.routes.check(ctx, routeEvents, nil); err != nil {
		t.Errorf("watch of the routes: %v", err)
	}
	c.Kubectl(t, nil, "wait", "gateways", "--all", "-A", "--for=condition=Programmed", "--timeout=60s")
	for resource, each := range map[string]int{"gateways": gatewaysEach, "httproutes": routesEach} {
		kind := load.Kind{GroupVersionResource: schema.GroupVersionResource{
			Group: gatewayv1.GroupName, Version: "v1",
			Resource: resource,
		}}
		list, err := load.ListChunks(ctx, c.Dynamic, load.Scope{Kind: kind}, 7)
		if err != nil {
			t.Error(err)
		} else if want := each * len(names); len(list.Keys) != want {
			t.Errorf("listed %d %s, want %d", len(list.Keys), resource, want)
		}
	}
	g.checkRefusals(ctx, t)

	file := filepath.Join(crds, "gateway.networking.k8s.io_httproutes.yaml")
	c.Kubectl(t, nil, "delete", "-f", file, "--timeout=120s")
	if err := countDeleted(ctx, routeEvents, routesEach*len(names)); err != nil {
		t.Error(err)
	}
	c.Kubectl(t, nil, "apply", "--server-side", "-f", file)
	awaitEstablished(t, c, "-f", file)
	if left := strings.TrimSpace(c.Kubectl(t, nil, "get", "httproutes", "-A", "-o", "name")); left != "" {
		t.Errorf("routes that outlived their CRD: %s", left)
	}
}

// noConditions are the errors of kubectl's wait for an object that is so new that it has no conditions.
var noConditions = regexp.MustCompile(`\.status\.conditions accessor error|<nil> is not array or slice`)

// awaitEstablished waits until the API of the CRDs is served. It repeats a wait that found no conditions.
func awaitEstablished(t *testing.T, c *cluster.Cluster, crds ...string) {
	t.Helper()
	args := append([]string{
		"wait", `--for=jsonpath={.status.conditions[?(@.type=="Established")].status}=True`,
		"--timeout=60s",
	}, crds...)
	for began := time.Now(); ; {
		_, err := c.TryKubectl(t, nil, args...)
		if err == nil {
			return
		}
		if !noConditions.MatchString(err.Error()) || time.Since(began) > time.Minute {
			t.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
		}
	}
}

// gatewayCRDs returns the directory of the Gateway API's standard CRDs in its module.
func gatewayCRDs(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}",
		"sigs.k8s.io/gateway-api").Output()
	if err != nil {
		t.Fatalf("go list -m sigs.k8s.io/gateway-api: %v", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "config", "crd", "standard")
}

// gateways are the objects of the case and the writes to them.
type gateways struct {
	typed.GatewayV1Interface
	namespaces       []string
	gateways, routes *ledger
}

func (g *gateways) watch(ctx context.Context, t *testing.T) (gatewayEvents, routeEvents watch.Interface) {
	t.Helper()
	gatewayList, err1 := g.Gateways("").List(ctx, metav1.ListOptions{})
	routeList, err2 := g.HTTPRoutes("").List(ctx, metav1.ListOptions{})
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	gatewayEvents, err1 = g.Gateways("").Watch(ctx, metav1.ListOptions{ResourceVersion: gatewayList.ResourceVersion})
	routeEvents, err2 = g.HTTPRoutes("").Watch(ctx, metav1.ListOptions{ResourceVersion: routeList.ResourceVersion})
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(gatewayEvents.Stop)
	t.Cleanup(routeEvents.Stop)
	return gatewayEvents, routeEvents
}

// create makes a class and, in every namespace, gateways and routes.
func (g *gateways) create(ctx context.Context) error {
	if _, err := g.GatewayClasses().Create(ctx, newGatewayClass("class"), metav1.CreateOptions{}); err != nil {
		return err
	}
	errGateways := parallel(ctx, gatewaysEach*len(g.namespaces), func(ctx context.Context, i int) error {
		namespace, name := g.namespaces[i%len(g.namespaces)], fmt.Sprintf("gateway-%d", i/len(g.namespaces))
		created, err := g.Gateways(namespace).Create(ctx, newGateway(namespace, name), metav1.CreateOptions{})
		if err != nil {
			return err
		}
		return g.gateways.add(created)
	})
	errRoutes := parallel(ctx, routesEach*len(g.namespaces), func(ctx context.Context, i int) error {
		namespace, name := g.namespaces[i%len(g.namespaces)], fmt.Sprintf("route-%d", i/len(g.namespaces))
		created, err := g.HTTPRoutes(namespace).Create(ctx, newRoute(namespace, name), metav1.CreateOptions{})
		if err != nil {
			return err
		}
		return g.routes.add(created)
	})
	return errors.Join(errGateways, errRoutes)
}

// reconcile writes the statuses of all gateways and routes.
func (g *gateways) reconcile(ctx context.Context) error {
	errGateways := parallel(ctx, gatewaysEach*len(g.namespaces), func(ctx context.Context, i int) error {
		return g.reconcileGateway(ctx, g.namespaces[i%len(g.namespaces)], fmt.Sprintf("gateway-%d",
			i/len(g.namespaces)))
	})
	errRoutes := parallel(ctx, routesEach*len(g.namespaces), func(ctx context.Context, i int) error {
		return g.reconcileRoute(ctx, g.namespaces[i%len(g.namespaces)], fmt.Sprintf("route-%d", i/len(g.namespaces)))
	})
	return errors.Join(errGateways, errRoutes)
}

// reconcileGateway takes a gateway through two generations of its spec, each followed by its status: a change of the
// spec raises the generation, a change of the status does not.
func (g *gateways) reconcileGateway(ctx context.Context, namespace, name string) error {
	client := g.Gateways(namespace)
	patch, err := json.Marshal(map[string]any{"status": gatewayv1.GatewayStatus{Conditions: []metav1.Condition{
		condition(string(gatewayv1.GatewayConditionAccepted), metav1.ConditionFalse, "Pending", 1),
	}}})
	if err != nil {
		return err
	}
	got, err := client.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("patch the status of gateway %s: %w", name, err)
	}
	if err := g.gateways.add(got); err != nil {
		return err
	}
	if err := g.applyGatewayStatus(ctx, namespace, name, 1); err != nil {
		return err
	}
	got, err = client.Patch(ctx, name, types.JSONPatchType,
		[]byte(`[{"op":"replace","path":"/spec/listeners/0/port","value":8080}]`), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("patch gateway %s: %w", name, err)
	}
	if err := g.gateways.add(got); err != nil {
		return err
	}
	return g.applyGatewayStatus(ctx, namespace, name, 2)
}

// applyGatewayStatus lets two managers apply one condition each. Both stay, because the list of conditions is a map by
// type.
func (g *gateways) applyGatewayStatus(ctx context.Context, namespace, name string, generation int64) error {
	var got *gatewayv1.Gateway
	for _, kind := range []gatewayv1.GatewayConditionType{
		gatewayv1.GatewayConditionAccepted,
		gatewayv1.GatewayConditionProgrammed,
	} {
		status := apply.GatewayStatus().WithConditions(applyCondition(string(kind), generation))
		if kind == gatewayv1.GatewayConditionProgrammed {
			status.WithListeners(apply.ListenerStatus().WithName("http").WithAttachedRoutes(routesEach).
				WithConditions(applyCondition(string(gatewayv1.ListenerConditionResolvedRefs), generation)))
		}
		var err error
		got, err = g.Gateways(namespace).ApplyStatus(ctx, apply.Gateway(name, namespace).WithStatus(status),
			metav1.ApplyOptions{FieldManager: strings.ToLower(string(kind)), Force: true})
		if err != nil {
			return fmt.Errorf("apply the status of gateway %s: %w", name, err)
		}
		if err := g.gateways.add(got); err != nil {
			return err
		}
	}
	if err := allTrue(got.Status.Conditions, "Accepted", "Programmed"); err != nil {
		return fmt.Errorf("gateway %s: %w", name, err)
	}
	if got.Generation != generation || len(got.Status.Listeners) != 1 {
		return fmt.Errorf("gateway %s of generation %d with %d listeners' statuses, want generation %d with 1",
			name, got.Generation, len(got.Status.Listeners), generation)
	}
	return nil
}

// reconcileRoute applies the status of the route for its only parent, which a merge patch then changes.
func (g *gateways) reconcileRoute(ctx context.Context, namespace, name string) error {
	client := g.HTTPRoutes(namespace)
	parent := apply.RouteParentStatus().WithControllerName(controller).
		WithParentRef(apply.ParentReference().WithName("gateway-0")).
		WithConditions(applyCondition(string(gatewayv1.RouteConditionAccepted), 1),
			applyCondition(string(gatewayv1.RouteConditionResolvedRefs), 1))
	got, err := client.ApplyStatus(ctx,
		apply.HTTPRoute(name, namespace).WithStatus(apply.HTTPRouteStatus().WithParents(parent)),
		metav1.ApplyOptions{FieldManager: "controller"})
	if err != nil {
		return fmt.Errorf("apply the status of route %s: %w", name, err)
	}
	if err := g.routes.add(got); err != nil {
		return err
	}
	if err := allTrue(got.Status.Parents[0].Conditions, "Accepted", "ResolvedRefs"); err != nil {
		return fmt.Errorf("route %s: %w", name, err)
	}
	got.Status.Parents[0].Conditions[1] = condition(string(gatewayv1.RouteConditionResolvedRefs), metav1.ConditionFalse,
		"BackendNotFound", 1)
	patch, err := json.Marshal(map[string]any{"status": got.Status})
	if err != nil {
		return err
	}
	got, err = client.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("patch the status of route %s: %w", name, err)
	}
	return g.routes.add(got)
}

// countDeleted reads n deletions of different objects from a watch.
func countDeleted(ctx context.Context, stream watch.Interface, n int) error {
	gone := map[types.UID]bool{}
	for len(gone) < n {
		select {
		case event := <-stream.ResultChan():
			if event.Type != watch.Deleted {
				return fmt.Errorf("event %q after %d deletions, want %d", event.Type, len(gone), n)
			}
			gone[event.Object.(metav1.Object).GetUID()] = true
		case <-ctx.Done():
			return fmt.Errorf("%w after %d deletions, want %d", ctx.Err(), len(gone), n)
		}
	}
	return nil
}

func condition(kind string, status metav1.ConditionStatus, reason string, generation int64) metav1.Condition {
	return metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: "as tested",
		ObservedGeneration: generation, LastTransitionTime: metav1.Now(),
	}
}

func applyCondition(kind string, generation int64) *applymeta.ConditionApplyConfiguration {
	return applymeta.Condition().WithType(kind).WithStatus(metav1.ConditionTrue).WithReason(kind).
		WithMessage("as tested").WithObservedGeneration(generation).WithLastTransitionTime(metav1.Now())
}

// allTrue reports whether exactly the named conditions are present, and true.
func allTrue(conditions []metav1.Condition, names ...string) error {
	status := map[string]metav1.ConditionStatus{}
	for _, c := range conditions {
		status[c.Type] = c.Status
	}
	for _, name := range names {
		if status[name] != metav1.ConditionTrue {
			return fmt.Errorf("condition %s is %q", name, status[name])
		}
	}
	if len(conditions) != len(names) {
		return fmt.Errorf("conditions %v, want %v", status, names)
	}
	return nil
}
