//go:build linux

package ipvs

import (
	"fmt"
	"net"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	utilipvs "k8s.io/kubernetes/pkg/proxy/ipvs/util"

	"github.com/vipkit/vipkit/hack/upstream/shadow"
)

// syncProxyRules compares the virtual servers that upstream left to those of a plan.
func (proxier *Proxier) syncProxyRules() error {
	err := proxier.upstreamSyncProxyRules()
	if err != nil || !proxier.isInitialized() {
		return err
	}
	servers, listErr := proxier.vipkitServers()
	if listErr != nil {
		return listErr
	}
	cfg, listErr := proxier.vipkitConfig()
	if listErr != nil {
		return listErr
	}
	plan := shadow.NewPlan(cfg.Config(), proxier.serviceChanges.Vipkit(), proxier.endpointsChanges.Vipkit())
	shadow.CompareServers(plan, proxier.ipFamily, servers)
	return nil
}

func (proxier *Proxier) vipkitServers() ([]shadow.VirtualServer, error) {
	list, err := proxier.ipvs.GetVirtualServers()
	if err != nil {
		return nil, err
	}
	var out []shadow.VirtualServer
	for _, v := range list {
		s := shadow.VirtualServer{
			Protocol: v.Protocol, Address: net.JoinHostPort(v.Address.String(), fmt.Sprint(v.Port)), Scheduler: v.Scheduler,
		}
		if v.Flags&utilipvs.FlagPersistent != 0 {
			s.Persistence = int(v.Timeout)
		}
		reals, err := proxier.ipvs.GetRealServers(v)
		if err != nil {
			return nil, err
		}
		for _, r := range reals {
			if r.Weight > 0 {
				s.Real = append(s.Real, r.String())
			}
		}
		out = append(out, s)
	}
	return out, nil
}

func (proxier *Proxier) vipkitConfig() (shadow.Proxier, error) {
	cfg := shadow.Proxier{
		Node: proxier.nodeName, Zone: proxier.topologyLabels[v1.LabelTopologyZone],
		MasqueradeAll: proxier.masqueradeAll, NodePortAddresses: proxier.nodePortAddresses.String(),
		// ipvs.Render knows no other addresses of the machine.
		Single: true,
	}
	local, err := proxier.netlinkHandle.GetAllLocalAddressesExcept(defaultDummyDevice)
	if err != nil {
		return cfg, err
	}
	addrs, err := proxier.networkInterfacer.InterfaceAddrs()
	if err != nil {
		return cfg, err
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			local.Insert(n.IP.String())
		}
	}
	cfg.NodeIPs = sets.List(local)
	return cfg, nil
}
