package main

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/examples/internal/manifests"
	"github.com/vipkit/vipkit/proxy"
)

// newLab builds the network around the first node: a namespace for each of its pods,
// one for each other node with all its pods, and one for the clients outside. Behind
// every endpoint a server answers.
func newLab(objects *manifests.Objects) (*netlab.Lab, error) {
	node, _ := proxy.ReadNode(objects.Nodes[0])
	servers := serversOf(objects)
	neighbours, err := hosts(node.Name, servers)
	if err != nil {
		return nil, err
	}
	lab, err := netlab.New(netlab.Options{Node: node.Addresses, Hosts: neighbours, Uplink: uplink})
	if err != nil {
		return nil, err
	}
	for _, s := range servers {
		if err := lab.Serve(s.addr, s.proto); err != nil {
			return nil, errors.Join(err, lab.Close())
		}
	}
	return lab, nil
}

// A server is what stands behind an endpoint.
type server struct {
	addr  netip.AddrPort
	proto corev1.Protocol
	node  string
}

// serversOf lists the endpoints of all slices, before and after the change in the
// middle of the demo. An endpoint tracker knows how to read a slice.
func serversOf(objects *manifests.Objects) []server {
	var list []server
	tracker := endpoints.NewEndpointsChangeTracker(endpoints.Options{})
	for _, slice := range append(slices.Clone(objects.EndpointSlices), withNewPod(objects)) {
		tracker.Set(slice)
		for _, set := range tracker.Take().Sets {
			for key, eps := range set.All() {
				for _, e := range eps {
					list = append(list, server{e.Addr, key.Protocol, e.NodeName})
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b server) int { return a.addr.Compare(b.addr) })
	return slices.Compact(list)
}

// uplink is the host to which the node sends what it has no better route for.
const uplink = "outside"

// hosts lists what is connected to the node called name.
func hosts(name string, servers []server) ([]netlab.Host, error) {
	outside, err := addresses(partner, stranger, partner6)
	if err != nil {
		return nil, err
	}
	pod, err := addresses(clientPod, clientPod6)
	if err != nil {
		return nil, err
	}
	list := []netlab.Host{
		{Name: uplink, Interface: "eth0", Addresses: outside},
		{Name: "client pod", Interface: "veth1", Addresses: pod},
	}
	for _, s := range servers {
		owner := s.node
		if s.node == name {
			owner = "pod " + s.addr.Addr().String()
		}
		i := slices.IndexFunc(list, func(h netlab.Host) bool { return h.Name == owner })
		if i < 0 {
			i = len(list)
			list = append(list, netlab.Host{Name: owner, Interface: fmt.Sprintf("veth%d", i)})
		}
		if !slices.Contains(list[i].Addresses, s.addr.Addr()) {
			list[i].Addresses = append(list[i].Addresses, s.addr.Addr())
		}
	}
	return list, nil
}

func addresses(texts ...string) ([]netip.Addr, error) {
	list := make([]netip.Addr, 0, len(texts))
	for _, text := range texts {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, nil
}
