package apiserver_test

import (
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sqlstore/sqlstore/internal/testing/authority"
	"github.com/sqlstore/sqlstore/internal/testing/launch"
	"github.com/sqlstore/sqlstore/internal/testing/pages"
	"github.com/sqlstore/sqlstore/test/kubernetes/apiserver/cluster"
)

// TestClientCertificates runs a kube-apiserver with the flags of docs/kubernetes.md: it shows its certificate to a
// store that requires one. Nothing listens at the first of the two addresses, as when a replica is down.
func TestClientCertificates(t *testing.T) {
	flags := pages.Own(t, "kube-apiserver")
	ca, dir := authority.New(t), t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		authority.Write(t, path, content)
		return path
	}
	cert, key := ca.Issue("sqlstore")
	clientCert, clientKey := ca.Issue("kube-apiserver")
	caFile := file("ca.crt", ca.PEM())

	down, err := launch.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	address, err := launch.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	launch.Start(t, launch.Config{Args: []string{
		"--listen-client-urls", "https://" + address, "--advertise-client-urls", "https://" + address,
		"--cert-file", file("server.crt", cert), "--key-file", file("server.key", key),
		"--trusted-ca-file", caFile, "--client-cert-auth",
	}})

	c := cluster.Start(t, nil, cluster.Config{WatchCache: true, Args: pages.Replace(t, flags,
		"10.0.0.5:2379", down, "10.0.0.6:2379", address, "ca.crt", caFile,
		"client.crt", file("client.crt", clientCert), "client.key", file("client.key", clientKey))})
	configMaps := c.Clients.CoreV1().ConfigMaps(metav1.NamespaceDefault)
	if _, err := configMaps.Create(t.Context(), labelled("stored", "new"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := configMaps.Get(t.Context(), "stored", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
}
