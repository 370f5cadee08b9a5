package kubeproxy

import (
	"errors"

	"k8s.io/kubernetes/pkg/proxy/iptables"
	"k8s.io/kubernetes/pkg/proxy/ipvs"
	"k8s.io/kubernetes/pkg/proxy/nftables"
)

// Cleanup removes what a plane's proxiers left in the network namespace of the caller.
func Cleanup(plane string) error {
	failed := false
	switch plane {
	case NFTables:
		failed = nftables.CleanupLeftovers(quiet())
	case IPTables:
		failed = iptables.CleanupLeftovers(quiet())
	case IPVS:
		failed = ipvs.CleanupLeftovers(quiet())
	}
	if failed {
		return errors.New("kubeproxy: kube-proxy could not clean up")
	}
	return nil
}
