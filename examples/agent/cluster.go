package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// What is asked of the API server. It evaluates the selectors itself, so an object that
// gets one of the labels arrives as deleted, and one that loses it as new.
const (
	// notOurs selects objects that no other proxy is meant for, and whose
	// Service has a ClusterIP.
	notOurs = "!service.kubernetes.io/service-proxy-name,!" + corev1.IsHeadlessService

	// withClusterIP selects Services by field, as not all headless Services have a label.
	withClusterIP = "spec.clusterIP!=" + corev1.ClusterIPNone

	// userAgent is what the API server's log and metrics show.
	userAgent = "vipkit-agent"

	// retryDiscovery is how long to wait for an API server that does not answer.
	retryDiscovery = 2 * time.Second
)

// A cluster is a source that follows an API server with informers.
type cluster struct {
	client kubernetes.Interface
	node   string
	logger *slog.Logger
}

// newCluster returns a source for the API server that the flags name. It does
// not connect.
func newCluster(opts options, logger *slog.Logger) (*cluster, error) {
	config, err := restConfig(opts.source.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("-source kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(rest.AddUserAgent(config, userAgent))
	if err != nil {
		return nil, fmt.Errorf("-source kubeconfig: %w", err)
	}
	return &cluster{client: client, node: opts.name, logger: logger}, nil
}

// restConfig reads a kubeconfig. Without a path it is the service account of the pod
// or, outside of a cluster, what kubectl would use.
func restConfig(path string) (*rest.Config, error) {
	if path == "" {
		config, err := rest.InClusterConfig()
		if !errors.Is(err, rest.ErrNotInCluster) {
			return config, err
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
}

// follow is as source says. When the API server is away, what was delivered last
// holds, and the informers come back by themselves.
func (c *cluster) follow(ctx context.Context, to *feed) error {
	all := []informer{c.services(to), c.slices(to), c.nodes(to)}
	if ranges, err := c.hasServiceCIDRs(ctx); err != nil {
		return nil //nolint:nilerr // it is ctx that is done
	} else if ranges {
		all = append(all, c.serviceCIDRs(to))
	}
	synced := make([]cache.InformerSynced, 0, len(all))
	for _, i := range all {
		registered, err := c.prepare(i)
		if err != nil {
			return err
		}
		synced = append(synced, registered)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, i := range all {
		wg.Go(func() { i.RunWithContext(ctx) })
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil
	}
	c.ready(to)
	<-ctx.Done()
	return nil
}

// ready opens the gates. That of the node stays closed until the Node is there, unless
// the flags have its addresses.
func (c *cluster) ready(to *feed) {
	switch {
	case len(to.flags.Config().Node.Addresses) > 0:
		to.nodeReady()
	case !to.hasNode():
		c.logger.Info("waiting for the Node", "node", c.node)
	}
	to.ready()
}

// hasServiceCIDRs asks until there is an answer whether the API server has that
// kind, which is newer than the others. The error is that of ctx.
func (c *cluster) hasServiceCIDRs(ctx context.Context) (bool, error) {
	for told := false; ; told = true {
		list, err := c.client.Discovery().ServerResourcesForGroupVersion(networkingv1.SchemeGroupVersion.String())
		switch {
		case err == nil:
			return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == "ServiceCIDR" }), nil
		case apierrors.IsNotFound(err):
			return false, nil
		case !told:
			c.logger.Error("cannot reach the API server, trying again", "error", err)
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(retryDiscovery):
		}
	}
}
