// Package traffic measures the data plane: a client namespace dials Services through the
// rules of a node namespace, and server namespaces answer. Nothing leaves the machine. It is
// run by a worker.
package traffic

import (
	"fmt"
	"net/netip"
	"os"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
	"github.com/vipkit/vipkit/bench/cluster"
)

// Names of the hosts around the node.
const (
	clientHost = "client"
	serverHost = "server"
)

// sources is how many addresses the client has. It takes them in turn, so that no new connection
// has the ports of one that connection tracking still knows.
const sources = 100

// affinityEndpoints is how many endpoints the Service with affinity has, and so
// how many addresses the server has.
const affinityEndpoints = 100

// The client is a pod of the node: its connections are not masqueraded.
func clientIP(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 128, 0, byte(100 + i)}) }

func serverIP(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 200, 1, byte(1 + i)}) }

// newLab connects a client and a server to a node.
func newLab() (*netlab.Lab, error) {
	opts := netlab.Options{
		Node:   []netip.Addr{netip.MustParseAddr(cluster.Address)},
		Uplink: serverHost,
		Hosts: []netlab.Host{
			{Name: clientHost, Interface: "veth-client"},
			{Name: serverHost, Interface: "veth-server"},
		},
	}
	for i := range sources {
		opts.Hosts[0].Addresses = append(opts.Hosts[0].Addresses, clientIP(i))
	}
	for i := range affinityEndpoints {
		opts.Hosts[1].Addresses = append(opts.Hosts[1].Addresses, serverIP(i))
	}
	lab, err := netlab.New(opts)
	if err != nil {
		return nil, err
	}
	for host, settings := range settings() {
		err := lab.Namespace(host).Do(func() error { return write(settings) })
		if err != nil {
			return nil, err
		}
	}
	return lab, nil
}

// settings lets connection tracking forget closed connections soon, and gives the
// client all ports.
func settings() map[string]map[string]string {
	return map[string]map[string]string{
		clientHost: {"ipv4/ip_local_port_range": "10000 65535"},
		netlab.NodeName: {
			"netfilter/nf_conntrack_tcp_timeout_close":       "1",
			"netfilter/nf_conntrack_udp_timeout":             "1",
			"netfilter/nf_conntrack_udp_timeout_stream":      "1",
			"netfilter/nf_conntrack_tcp_timeout_established": "60",
		},
	}
}

func write(settings map[string]string) error {
	for name, value := range settings {
		if err := os.WriteFile("/proc/sys/net/"+name, []byte(value), 0); err != nil {
			return fmt.Errorf("traffic: set %s: %w", name, err)
		}
	}
	return nil
}
