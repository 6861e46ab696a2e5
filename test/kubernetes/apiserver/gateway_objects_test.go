package apiserver_test

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

func newGatewayClass(name string) *gatewayv1.GatewayClass {
	return &gatewayv1.GatewayClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       gatewayv1.GatewayClassSpec{ControllerName: controller},
	}
}

func newGateway(namespace, name string) *gatewayv1.Gateway {
	return &gatewayv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: gatewayv1.GatewaySpec{
			GatewayClassName: "class",
			Listeners:        []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}},
		},
	}
}

func newRoute(namespace, name string) *gatewayv1.HTTPRoute {
	port := gatewayv1.PortNumber(8080)
	backend := gatewayv1.HTTPBackendRef{BackendRef: gatewayv1.BackendRef{
		BackendObjectReference: gatewayv1.BackendObjectReference{Name: "backend", Port: &port},
	}}
	return &gatewayv1.HTTPRoute{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: gatewayv1.HTTPRouteSpec{
			CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{{Name: "gateway-0"}}},
			Rules:           []gatewayv1.HTTPRouteRule{{BackendRefs: []gatewayv1.HTTPBackendRef{backend}}},
		},
	}
}

// checkRefusals sends objects that the CRDs' CEL rules and schemas forbid; none may be stored.
func (g *gateways) checkRefusals(ctx context.Context, t *testing.T) {
	t.Helper()
	namespace := g.namespaces[0]
	before, err := g.Gateways("").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, reason string
		do           func() error
	}{
		{"HTTP listener with TLS", "tls must not be specified for protocols", func() error {
			gateway := newGateway(namespace, "refused")
			gateway.Spec.Listeners[0].TLS = &gatewayv1.ListenerTLSConfig{
				CertificateRefs: []gatewayv1.SecretObjectReference{{Name: "certificate"}},
			}
			_, err := g.Gateways(namespace).Create(ctx, gateway, metav1.CreateOptions{})
			return err
		}},
		{"two listeners on one port", "Combination of port, protocol and hostname must be unique", func() error {
			gateway := newGateway(namespace, "refused")
			second := gateway.Spec.Listeners[0]
			second.Name = "second"
			gateway.Spec.Listeners = append(gateway.Spec.Listeners, second)
			_, err := g.Gateways(namespace).Create(ctx, gateway, metav1.CreateOptions{})
			return err
		}},
		{"redirect with backends", "RequestRedirect filter must not be used together with backendRefs", func() error {
			route := newRoute(namespace, "refused")
			route.Spec.Rules[0].Filters = []gatewayv1.HTTPRouteFilter{{
				Type:            gatewayv1.HTTPRouteFilterRequestRedirect,
				RequestRedirect: &gatewayv1.HTTPRequestRedirectFilter{},
			}}
			_, err := g.HTTPRoutes(namespace).Create(ctx, route, metav1.CreateOptions{})
			return err
		}},
		{"class with another controller", "Value is immutable", func() error {
			_, err := g.GatewayClasses().Patch(ctx, "class", types.MergePatchType,
				[]byte(`{"spec":{"controllerName":"example.com/other"}}`), metav1.PatchOptions{})
			return err
		}},
		{"condition without reason", "status.conditions[0].reason", func() error {
			_, err := g.Gateways(namespace).Patch(ctx, "gateway-0", types.MergePatchType,
				[]byte(`{"status":{"conditions":[{"type":"Accepted","status":"True","message":""}]}}`),
				metav1.PatchOptions{}, "status")
			return err
		}},
	} {
		if err := tc.do(); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.reason) {
			t.Errorf("%s: %v, want an invalid object for %q", tc.name, err, tc.reason)
		}
	}
	after, err := g.Gateways("").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(after.Items) != len(before.Items) || after.Items[0].ResourceVersion != before.Items[0].ResourceVersion {
		t.Errorf("%d gateways after the refusals, %d before", len(after.Items), len(before.Items))
	}
}
