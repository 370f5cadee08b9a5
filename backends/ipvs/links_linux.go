package ipvs

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// routes bind addresses by local routes to the loopback interface, in the network namespace of the calling thread. The kernel keeps
// the addresses of an interface in a list and routes in a tree, so the time for many routes grows with their number only. Of an
// interface of our own that goes down, or loses its last address, the kernel would remove all routes.
type routes struct {
	name string
}

// The kernel's own local routes have other protocols and metric 0, so they come first and ours never replaces one.
const (
	routeProtocol = 86 // no number of the kernel's, and none that iproute2 or a routing daemon has a name for
	loopbackIndex = 1  // in every namespace
)

func newLinks(name string) links { return routes{name} }

// metric tells our routes from those of a Backend with another name.
func (r routes) metric() int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(r.name)) // never fails
	return int(h.Sum32()&0x3fffffff) + 1
}

func (r routes) to(a netip.Addr) *netlink.Route {
	local := &netlink.Route{
		LinkIndex: loopbackIndex, Dst: host(a), Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL,
		Protocol: routeProtocol, Priority: r.metric(), Scope: netlink.SCOPE_HOST,
	}
	if a.Is6() {
		local.Scope = netlink.SCOPE_UNIVERSE // there is no other
	}
	return local
}

func (r routes) bound() (map[netip.Addr]netip.Addr, error) {
	out := make(map[netip.Addr]netip.Addr)
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		found, err := netlink.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_LOCAL, Protocol: routeProtocol},
			netlink.RT_FILTER_TABLE|netlink.RT_FILTER_PROTOCOL)
		if err != nil {
			return nil, fmt.Errorf("ipvs: list local routes: %w", err)
		}
		for _, f := range found {
			if f.Dst == nil || f.Priority != r.metric() {
				continue
			}
			addr, _ := netip.AddrFromSlice(f.Dst.IP)
			src, _ := netip.AddrFromSlice(f.Src)
			out[addr.Unmap()] = src.Unmap()
		}
	}
	return out, nil
}

func (r routes) bind(a, src netip.Addr) error {
	local := r.to(a)
	local.Src = src.AsSlice()
	if err := netlink.RouteReplace(local); err != nil {
		return fmt.Errorf("ipvs: make local route to %s with source %s: %w", a, src, err)
	}
	return nil
}

func (r routes) unbind(a netip.Addr) error {
	if err := netlink.RouteDel(r.to(a)); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("ipvs: remove local route to %s: %w", a, err)
	}
	return nil
}

func (r routes) others() ([]netip.Addr, error) {
	old, err := r.old()
	if err != nil {
		return nil, err
	}
	all, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("ipvs: list addresses: %w", err)
	}
	var out []netip.Addr
	for _, a := range all {
		if old != nil && a.LinkIndex == old.Attrs().Index {
			continue
		}
		if addr, ok := netip.AddrFromSlice(a.IP); ok {
			out = append(out, addr.Unmap())
		}
	}
	return out, nil
}

// old returns the interface of an earlier version, nil if there is none.
func (r routes) old() (netlink.Link, error) {
	link, err := netlink.LinkByName(r.name)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		return nil, nil //nolint:nilnil // no interface is an answer
	}
	if err != nil {
		return nil, fmt.Errorf("ipvs: find interface %s: %w", r.name, err)
	}
	if link.Type() != "dummy" {
		return nil, nil //nolint:nilnil // somebody else's
	}
	return link, nil
}

func (r routes) removeOld() error {
	link, err := r.old()
	if err != nil || link == nil {
		return err
	}
	if err := netlink.LinkDel(link); err != nil {
		return fmt.Errorf("ipvs: remove interface %s: %w", r.name, err)
	}
	return nil
}

func host(a netip.Addr) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
}
