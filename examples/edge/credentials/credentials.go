// Package credentials keeps the certificates, keys and kubeconfigs of a control plane in a directory.
package credentials

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/keyutil"
)

// Files are the files with certificates and keys. Those named pair have a certificate and its key in one file, so that
// one never is without the other.
type Files struct {
	AuthorityPair   string
	Authority       string // the certificate alone, for those who must not see the key
	ServerPair      string
	ServiceAccounts string // the key that signs their tokens

	// kubeconfigs, each with a certificate for its user
	Admin             string
	ControllerManager string
	Scheduler         string
}

// Ensure makes the files of a kube-apiserver at a host and port that are missing, or do not fit or last. serviceIP is
// its address for Pods.
func Ensure(dir, listen, serviceIP string, now time.Time) (*Files, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, err
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	f := &Files{
		AuthorityPair: file("ca.pem"), Authority: file("ca.crt"), ServerPair: file("kube-apiserver.pem"),
		ServiceAccounts: file("service-accounts.key"), Admin: file("admin.kubeconfig"),
		ControllerManager: file("kube-controller-manager.kubeconfig"), Scheduler: file("kube-scheduler.kubeconfig"),
	}
	ca, err := loadAuthority(f.AuthorityPair, now)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.AuthorityPair, err)
	}
	if err := writeFile(f.Authority, ca.certificate); err != nil {
		return nil, err
	}
	if err := ensureKey(f.ServiceAccounts); err != nil {
		return nil, err
	}
	if err := ca.ensureServer(f.ServerPair, hosts(host, serviceIP), now); err != nil {
		return nil, fmt.Errorf("%s: %w", f.ServerPair, err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	server := "https://" + net.JoinHostPort(host, port)
	for path, u := range map[string]user{
		f.Admin:             {name: "admin", group: "system:masters"},
		f.ControllerManager: {name: "system:kube-controller-manager"},
		f.Scheduler:         {name: "system:kube-scheduler"},
	} {
		if err := ca.ensureKubeconfig(path, server, u, now); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return f, nil
}

// ensureKey makes a key, unless there is one: with another, every token would be void.
func ensureKey(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	key, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return err
	}
	return writeFile(path, key)
}

// hosts are the names and addresses under which clients know kube-apiserver.
func hosts(listen, serviceIP string) []string {
	all := sets.New("localhost", "127.0.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local", serviceIP)
	if listen != "" {
		all.Insert(listen)
	}
	if name, err := os.Hostname(); err == nil {
		all.Insert(name)
	}
	return sets.List(all)
}

// user is whom a client certificate names.
type user struct{ name, group string }

// ensureKubeconfig makes a kubeconfig, unless it is there and of use.
func (a *authority) ensureKubeconfig(path, server string, u user, now time.Time) error {
	const name = "edge"
	if old, err := clientcmd.LoadFromFile(path); err == nil {
		cluster, info := old.Clusters[name], old.AuthInfos[name]
		if cluster != nil && info != nil && cluster.Server == server &&
			string(cluster.CertificateAuthorityData) == string(a.certificate) &&
			a.trusts(info.ClientCertificateData, now) {
			return nil
		}
	}
	certificate, key, err := a.issue(u.template(), now)
	if err != nil {
		return err
	}
	cfg := api.NewConfig()
	cfg.Clusters[name] = &api.Cluster{Server: server, CertificateAuthorityData: a.certificate}
	cfg.AuthInfos[name] = &api.AuthInfo{ClientCertificateData: certificate, ClientKeyData: key}
	cfg.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	cfg.CurrentContext = name
	content, err := clientcmd.Write(*cfg)
	if err != nil {
		return err
	}
	return writeFile(path, content)
}
