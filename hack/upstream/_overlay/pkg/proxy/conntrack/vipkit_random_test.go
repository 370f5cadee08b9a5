package conntrack

import (
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	v1 "k8s.io/api/core/v1"

	"k8s.io/kubernetes/pkg/proxy"

	"github.com/vipkit/vipkit/hack/upstream/shadow"
)

// TestVipkitRandom lets random flows be cleaned in random clusters. The hook compares.
func TestVipkitRandom(t *testing.T) {
	t.Cleanup(shadow.Random())
	g := shadow.NewGenerator(shadow.Options{Names: 4, Valid: true, Family: v1.IPv4Protocol})
	for range shadow.Rounds(2000) {
		services := proxy.NewServiceChangeTracker(v1.IPv4Protocol, nil, nil)
		endpoints := proxy.NewEndpointsChangeTracker(v1.IPv4Protocol, shadow.NodeName, nil, nil)
		objects := map[string]*v1.Service{}
		servers := []string{"10.1.9.9"}
		for range 6 {
			s, slice := g.Service(), g.Slice()
			services.Update(objects[s.Name], s)
			objects[s.Name] = s
			endpoints.EndpointSliceUpdate(slice, false)
			for _, e := range slice.Endpoints {
				servers = append(servers, e.Addresses[0])
			}
		}
		ports, eps := proxy.ServicePortMap{}, proxy.EndpointsMap{}
		ports.Update(services)
		eps.Update(endpoints)
		flows := vipkitFlows(g, objects, servers)
		CleanStaleEntries(newConntracker(&fakeHandler{entries: flows}), v1.IPv4Protocol, ports, eps)
	}
}

func vipkitFlows(g *shadow.Generator, objects map[string]*v1.Service, servers []string) []*netlink.ConntrackFlow {
	places := shadow.PlacesOf(objects)
	places.Destinations = append(places.Destinations, shadow.NodeIP().String(), shadow.NodeIP().String(), "203.0.113.77")
	places.Ports = append(places.Ports, 80, 81, 82, 9999)
	var out []*netlink.ConntrackFlow
	for range 60 {
		dst, port := shadow.Pick(g, places.Destinations...), uint16(shadow.Pick(g, places.Ports...))
		if a, err := netip.ParseAddr(dst); err != nil || !a.Is4() {
			continue
		}
		server, serverPort := shadow.Pick(g, servers...), uint16(8000+g.Intn(2))
		if g.Percent(20) {
			server, serverPort = dst, port
		}
		out = append(out, generateConntrackEntry(dst, port, server, serverPort, unix.IPPROTO_UDP))
	}
	return out
}
