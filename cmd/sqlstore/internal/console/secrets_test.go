package console_test

import (
	"bytes"
	"fmt"
	"net/url"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

func TestSecrets(t *testing.T) {
	t.Parallel()
	s := serve(t)
	secret := func(password string) string {
		return `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"token","annotations":{` +
			`"kubectl.kubernetes.io/last-applied-configuration":"` + password + `-again"}},"data":{"password":"` +
			password + `"}}`
	}
	first, second := s.put(token, secret("Zmlyc3Q=")), s.put(token, secret("c2Vjb25k"))
	object := "/object?key=" + url.QueryEscape(token)
	for _, path := range []string{
		object, object + "&raw=1", fmt.Sprintf("%s&at=%d", object, first),
		fmt.Sprintf("/diff?key=%s&from=%d&to=%d", url.QueryEscape(token), first, second),
		fmt.Sprintf("/restore?key=%s&at=%d", url.QueryEscape(token), first), "/delete?key=" + url.QueryEscape(token),
	} {
		s.get(path).want(200, "hidden").without("Zmlyc3Q", "c2Vjb25k", "5a 6d 6c", "-again")
	}
	s.get(object).want(200, "updated: data.password")
	if s.log.contains("values of a Secret") {
		t.Error("the log says that values were shown")
	}
	s.get(object+"&reveal=1", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document").
		want(200).without("c2Vjb25k")
	for key, value := range map[string]string{
		"/registry/secrets/default/list": `{"apiVersion":"v1","kind":"List","items":[{"data":{"p":"c2Vjb25k"}}]}`,
		"/registry/secrets/default/cut":  `{"apiVersion":"v1","kind":"Secret","data":{"password":"c2Vjb25k`,
		"/registry/secrets/default/text": "c2Vjb25k",
		"/registry/elsewhere":            `{"apiVersion":"v2","kind":"Secret","data":"c2Vjb25k"}`,
		"/registry/lists":                `{"apiVersion":"v1","kind":"SecretList","items":[{"data":{"p":"c2Vjb25k"}}]}`,
	} {
		s.put(key, value)
		for _, raw := range []string{"", "&raw=1"} {
			s.get("/object?key="+url.QueryEscape(key)+raw).want(200, "hidden").without("c2Vjb25k", "63 32 56")
		}
	}
	encoded := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: "proto", Annotations: map[string]string{"applied": "in-full"}},
		Data:       map[string][]byte{"password": []byte("second")},
	}
	var stored bytes.Buffer
	if err := protobuf.NewSerializer(nil, nil).Encode(encoded, &stored); err != nil {
		t.Fatal(err)
	}
	s.put("/registry/secrets/default/proto", stored.String())
	s.get("/object?key=/registry/secrets/default/proto").want(200, "v1 Secret, protobuf", "password: hidden").without(
		"c2Vjb25k", "second", "in-full")
	if s.log.contains("values of a Secret") {
		t.Error("the log says that values were shown")
	}
	s.get(object+"&reveal=1").want(200, "c2Vjb25k").without("are hidden")
	if !s.log.contains("the values of a Secret are shown") {
		t.Error("the log does not say that values were shown")
	}
}
