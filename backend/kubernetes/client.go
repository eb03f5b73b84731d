package kubernetes

import (
	"cmp"
	"context"
	"log/slog"
	"net"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/connrotation"
)

// connect finds the cluster that the options name. It does not connect yet.
func (b *Backend) connect() error {
	loading := clientcmd.NewDefaultClientConfigLoadingRules()
	loading.ExplicitPath = b.opts.Kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: b.opts.Context}
	found := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(loading, overrides)
	b.namespace = b.opts.Namespace
	if b.opts.Config != nil {
		b.config = rest.CopyConfig(b.opts.Config)
	} else {
		config, err := found.ClientConfig()
		if err != nil {
			return &Error{BadConfig, cmp.Or(b.opts.Kubeconfig, "kubeconfig"), "name a kubeconfig with KUBECONFIG or Options.Kubeconfig, or run the service in a pod", err}
		}
		b.config = config
		if b.namespace == "" {
			b.namespace, _, _ = found.Namespace()
		}
	}
	b.namespace = cmp.Or(b.namespace, "default")
	b.host = b.config.Host
	if b.config.QPS == 0 && b.config.RateLimiter == nil {
		b.config.QPS = -1 // the API server has its own fairness
	}
	if b.config.UserAgent == "" {
		b.config.UserAgent = "sandbox-go"
	}
	b.config.WarningHandler = rest.NoWarnings{}
	if b.opts.Logger != nil {
		b.config.WarningHandlerWithContext = warnings{b.opts.Logger}
	}
	dial := b.config.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	b.dialer = connrotation.NewDialer(dial)
	b.config.Dial = b.dialer.DialContext // not of execs, which dial for themselves
	var client *kubernetes.Clientset
	over, err := rest.HTTPClientFor(b.config)
	if err == nil {
		client, err = kubernetes.NewForConfigAndClient(b.config, over)
	}
	if err == nil {
		b.custom, err = dynamic.NewForConfigAndClient(b.config, over)
	}
	if err != nil {
		return &Error{BadConfig, b.host, "change the kubeconfig or Options.Config", err}
	}
	b.pods = client.CoreV1().Pods(b.namespace)
	b.leases = client.CoordinationV1().Leases(b.namespace)
	b.core = client.CoreV1().RESTClient()
	return nil
}

// warnings logs what the API server warns of.
type warnings struct{ log *slog.Logger }

// HandleWarningHeaderWithContext implements [rest.WarningHandlerWithContext].
func (w warnings) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	if code == 299 && text != "" {
		w.log.WarnContext(ctx, "the API server warns", "warning", text)
	}
}
