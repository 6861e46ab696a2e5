package main

import (
	"context"
	"fmt"
	"net"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	cliflag "k8s.io/component-base/cli/flag"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	apiserveroptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	controlleroptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	kubescheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	scheduleroptions "k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"github.com/sqlstore/sqlstore/examples/edge/credentials"
)

const (
	// serviceIPs are the addresses of Services. kube-apiserver's own Service has the first one.
	serviceIPs = "10.43.0.0/16"
	serviceIP  = "10.43.0.1"
)

// Each component has options of its own, which are set with the flags of its command. The commands themselves would
// each handle signals.

// apiServer returns a kube-apiserver.
func (s *settings) apiServer(f *credentials.Files) func(context.Context) error {
	return func(ctx context.Context) error {
		host, port, err := net.SplitHostPort(s.listen)
		if err != nil {
			return err
		}
		args := []string{
			"--etcd-servers=" + s.etcdServers,
			"--bind-address=" + host, "--secure-port=" + port,
			"--tls-cert-file=" + f.ServerPair, "--tls-private-key-file=" + f.ServerPair,
			"--client-ca-file=" + f.Authority,
			"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
			"--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-key-file=" + f.ServiceAccounts,
			"--service-account-signing-key-file=" + f.ServiceAccounts,
			"--service-cluster-ip-range=" + serviceIPs,
		}
		if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
			// No Pod could reach the endpoint of the Service kubernetes.
			args = append(args, "--endpoint-reconciler-type=none", "--advertise-address="+host)
		}
		o := apiserveroptions.NewServerRunOptions()
		if err := parse(o.Flags(), args); err != nil {
			return err
		}
		if err := o.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
			return err
		}
		completed, err := o.Complete(ctx)
		if err != nil {
			return err
		}
		if errs := completed.Validate(); len(errs) > 0 {
			return utilerrors.NewAggregate(errs)
		}
		return apiserver.Run(ctx, completed)
	}
}

// Nothing else runs the controllers or the scheduler of this store, so they need no leader election. kube-apiserver
// serves the metrics of the whole process, so they need no port.
var alone = []string{"--leader-elect=false", "--secure-port=0"}

// controllerManager returns a kube-controller-manager.
func controllerManager(f *credentials.Files) func(context.Context) error {
	return func(ctx context.Context) error {
		o, err := controlleroptions.NewKubeControllerManagerOptions()
		if err != nil {
			return err
		}
		all, disabled := controllers.KnownControllers(), controllers.ControllersDisabledByDefault()
		aliases := controllers.ControllerAliases()
		err = parse(o.Flags(all, disabled, aliases), append([]string{
			"--kubeconfig=" + f.ControllerManager, "--use-service-account-credentials",
			"--service-account-private-key-file=" + f.ServiceAccounts, "--root-ca-file=" + f.Authority,
			"--cluster-signing-cert-file=" + f.AuthorityPair, "--cluster-signing-key-file=" + f.AuthorityPair,
		}, alone...))
		if err != nil {
			return err
		}
		// Events are recorded until the end, so not with a context that ends before.
		cfg, err := o.Config(context.WithoutCancel(ctx), all, disabled, aliases)
		if err != nil {
			return err
		}
		return controllers.Run(ctx, cfg.Complete())
	}
}

// scheduler returns a kube-scheduler.
func scheduler(f *credentials.Files) func(context.Context) error {
	return func(ctx context.Context) error {
		o := scheduleroptions.NewOptions()
		if err := parse(*o.Flags, append([]string{"--kubeconfig=" + f.Scheduler}, alone...)); err != nil {
			return err
		}
		cfg, s, err := kubescheduler.Setup(ctx, o)
		if err != nil {
			return err
		}
		return kubescheduler.Run(ctx, cfg, s)
	}
}

// parse sets the options to which the flags belong.
func parse(sets cliflag.NamedFlagSets, args []string) error {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, set := range sets.FlagSets {
		all.AddFlagSet(set)
	}
	if err := all.Parse(args); err != nil {
		return fmt.Errorf("flags: %w", err)
	}
	return nil
}
