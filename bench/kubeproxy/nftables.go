package kubeproxy

import (
	"context"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/proxy/nftables"
	"sigs.k8s.io/knftables"
)

func (cfg Config) newNFTables(f corev1.IPFamily) (proxier, error) {
	p, err := nftables.NewProxier(quiet(), cfg.kubeConfig(), f, cfg.detector(f), cfg.Settings.NodeName, cfg.nodeIP(f), nil, cfg.health, false)
	if err != nil {
		return nil, err
	}
	nft := settable(p, "nftables")
	inner, ok := nft.Interface().(knftables.Interface)
	if !ok {
		return nil, fmt.Errorf("kube-proxy's field nftables is a %s", nft.Type())
	}
	nft.Set(reflect.ValueOf(&countingNFT{Interface: inner, count: cfg.Count}))
	return p, nil
}

// countingNFT counts the operations of each transaction that is run.
type countingNFT struct {
	knftables.Interface
	count func(int, error)
}

func (n *countingNFT) Run(ctx context.Context, tx *knftables.Transaction) error {
	err := n.Interface.Run(ctx, tx)
	n.count(tx.NumOperations(), err)
	return err
}
