package cluster

import (
	"bytes"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/sqlstore/sqlstore/test/programs"
)

// Kubectl runs kubectl with the arguments on the cluster and returns its output. stdin may be nil. The test fails if
// kubectl does.
func (c *Cluster) Kubectl(tb testing.TB, stdin io.Reader, args ...string) string {
	tb.Helper()
	out, err := c.TryKubectl(tb, stdin, args...)
	if err != nil {
		tb.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
	return out
}

// WatchKubectl runs a kubectl that does not end, such as kubectl get --watch, until the test ends. It returns the path
// of the file that gets its output. The test fails if kubectl ends before.
func (c *Cluster) WatchKubectl(tb testing.TB, args ...string) (log string) {
	tb.Helper()
	args = append([]string{"--kubeconfig", c.kubeconfig, "--cache-dir", tb.TempDir()}, args...)
	return startProcess(tb, programs.Kubectl.Path(tb), args...).log
}

// TryKubectl is Kubectl returning the error, with kubectl's standard error, instead of failing the test.
func (c *Cluster) TryKubectl(tb testing.TB, stdin io.Reader, args ...string) (string, error) {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), programs.Kubectl.Path(tb), append([]string{"--kubeconfig", c.kubeconfig},
		args...)...)
	// kubectl caches its discovery in the home directory, which tests must not share.
	cmd.Env = append(cmd.Environ(), "HOME="+filepath.Dir(c.kubeconfig))
	cmd.Stdin = stdin
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), &KubectlError{Stderr: stderr.String(), Err: err}
	}
	return stdout.String(), nil
}

// KubectlError is a kubectl that exited with a non-zero status.
type KubectlError struct {
	Stderr string
	Err    error
}

func (e *KubectlError) Error() string { return e.Err.Error() + ": " + strings.TrimSpace(e.Stderr) }

func (e *KubectlError) Unwrap() error { return e.Err }

// Kubeconfig returns the path of a kubeconfig with all permissions, for other programs.
func (c *Cluster) Kubeconfig() string { return c.kubeconfig }

// writeKubeconfig writes a kubeconfig that connects as cfg does.
func writeKubeconfig(tb testing.TB, cfg *rest.Config) string {
	tb.Helper()
	const name = "test"
	kubeconfig := api.NewConfig()
	kubeconfig.Clusters[name] = &api.Cluster{Server: cfg.Host, CertificateAuthority: cfg.CAFile}
	kubeconfig.AuthInfos[name] = &api.AuthInfo{Token: cfg.BearerToken}
	kubeconfig.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	kubeconfig.CurrentContext = name
	path := filepath.Join(tb.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*kubeconfig, path); err != nil {
		tb.Fatal(err)
	}
	return path
}
