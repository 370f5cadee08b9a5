package proxies

import (
	"context"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/proxy/nftables"
	proxyutil "k8s.io/kubernetes/pkg/proxy/util"
	"sigs.k8s.io/knftables"

	"github.com/vipkit/vipkit/bench/cluster"
)

func newKubeNFTables() (Proxy, error) {
	detector := proxyutil.NewDetectLocalByCIDR(cluster.PodCIDR)
	p, err := nftables.NewProxier(quiet(), kubeConfig(), corev1.IPv4Protocol, detector, cluster.Node, nodeIP(), nil, nil, false)
	if err != nil {
		return nil, fmt.Errorf("proxies: kube-proxy: %w", err)
	}
	c := &counter{}
	nft := settable(p, "nftables")
	inner, ok := nft.Interface().(knftables.Interface)
	if !ok {
		return nil, fmt.Errorf("proxies: kube-proxy's field nftables is a %s", nft.Type())
	}
	outer := &countingNFT{Interface: inner, counter: c}
	nft.Set(reflect.ValueOf(outer))
	return newTheirs(p, c)
}

// countingNFT counts the operations of each transaction that is run.
type countingNFT struct {
	knftables.Interface
	counter *counter
}

func (n *countingNFT) Run(ctx context.Context, tx *knftables.Transaction) error {
	return n.counter.add(tx.NumOperations(), n.Interface.Run(ctx, tx))
}
