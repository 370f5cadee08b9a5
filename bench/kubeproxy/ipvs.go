package kubeproxy

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	utilsysctl "k8s.io/component-helpers/node/util/sysctl"
	"k8s.io/kubernetes/pkg/proxy/ipvs"
	"k8s.io/kubernetes/pkg/proxy/ipvs/ipset"
	utilipvs "k8s.io/kubernetes/pkg/proxy/ipvs/util"
)

func (cfg Config) newIPVS(f corev1.IPFamily) (proxier, error) {
	handle := utilipvs.New()
	if handle == nil {
		return nil, errors.New("the kernel has no IPVS")
	}
	c := cfg.kubeConfig()
	c.IPVS.Scheduler = "rr"
	return ipvs.NewProxier(quiet(), c, f, cfg.iptables(f), handle, ipset.New(), utilsysctl.New(), cfg.detector(f),
		cfg.Settings.NodeName, cfg.nodeIP(f), nil, cfg.health, false)
}
