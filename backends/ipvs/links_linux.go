package ipvs

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// dummy is the interface that holds the addresses, in the network namespace of the calling
// thread.
type dummy struct {
	name string
}

func newLinks(name string) links { return dummy{name} }

func (d dummy) find() (netlink.Link, error) {
	link, err := netlink.LinkByName(d.name)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		return nil, nil //nolint:nilnil // no interface is an answer
	}
	if err != nil {
		return nil, fmt.Errorf("ipvs: find interface %s: %w", d.name, err)
	}
	if link.Type() != "dummy" {
		return nil, fmt.Errorf("ipvs: interface %s exists and is a %s, not a dummy", d.name, link.Type())
	}
	return link, nil
}

func (d dummy) make() (netlink.Link, error) {
	link, err := d.find()
	if err != nil {
		return nil, err
	}
	if link == nil {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = d.name
		if err = netlink.LinkAdd(&netlink.Dummy{LinkAttrs: attrs}); err != nil {
			return nil, fmt.Errorf("ipvs: make interface %s of type dummy: %w", d.name, err)
		}
		if link, err = d.find(); err != nil {
			return nil, err
		}
	}
	if link.Attrs().Flags&net.FlagUp == 0 {
		if err := netlink.LinkSetUp(link); err != nil {
			return nil, fmt.Errorf("ipvs: set interface %s up: %w", d.name, err)
		}
	}
	return link, nil
}

func (d dummy) bound() (map[netip.Addr]netip.Addr, error) {
	link, err := d.find()
	if err != nil || link == nil {
		return nil, err
	}
	all, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("ipvs: list addresses of %s: %w", d.name, err)
	}
	out := make(map[netip.Addr]netip.Addr, len(all))
	for _, a := range all {
		if addr, ok := netip.AddrFromSlice(a.IP); ok && !addr.IsLinkLocalUnicast() {
			out[addr.Unmap()] = netip.Addr{}
		}
	}
	return out, d.sources(link, out)
}

// sources fills in the sources of local routes.
func (d dummy) sources(link netlink.Link, out map[netip.Addr]netip.Addr) error {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		found, err := netlink.RouteListFiltered(family,
			&netlink.Route{LinkIndex: link.Attrs().Index, Table: unix.RT_TABLE_LOCAL},
			netlink.RT_FILTER_OIF|netlink.RT_FILTER_TABLE)
		if err != nil {
			return fmt.Errorf("ipvs: list local routes of %s: %w", d.name, err)
		}
		for _, r := range found {
			if r.Dst == nil || family == netlink.FAMILY_V6 && r.Priority != localMetric {
				continue
			}
			addr, _ := netip.AddrFromSlice(r.Dst.IP)
			src, _ := netip.AddrFromSlice(r.Src)
			if _, ours := out[addr.Unmap()]; ours {
				out[addr.Unmap()] = src.Unmap()
			}
		}
	}
	return nil
}

func (d dummy) others() ([]netip.Addr, error) {
	link, err := d.find()
	if err != nil {
		return nil, err
	}
	all, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("ipvs: list addresses: %w", err)
	}
	var out []netip.Addr
	for _, a := range all {
		if link != nil && a.LinkIndex == link.Attrs().Index {
			continue
		}
		if addr, ok := netip.AddrFromSlice(a.IP); ok {
			out = append(out, addr.Unmap())
		}
	}
	return out, nil
}

func (d dummy) bind(a, src netip.Addr) error {
	link, err := d.make()
	if err != nil {
		return err
	}
	addr := &netlink.Addr{IPNet: host(a), Flags: unix.IFA_F_NODAD}
	if a.Is6() {
		// The route that IPv6 makes for the prefix outlives an address with a lifetime, so there is none.
		addr.Flags |= unix.IFA_F_NOPREFIXROUTE
		// Deprecated from the start: IPv6 chooses sources among the addresses of all interfaces,
		// for masquerading too. 2^31 seconds are the longest that an int has everywhere.
		addr.ValidLft, addr.PreferedLft = math.MaxInt32, 0
	}
	if err := netlink.AddrReplace(link, addr); err != nil {
		return fmt.Errorf("ipvs: bind %s to %s: %w", a, d.name, err)
	}
	if !src.IsValid() {
		return nil
	}
	return d.route(link, a, src)
}

// route gives the local route of an address a source, so that the node does not dial the
// address with that very address as its own. The kernel makes the route without one: in
// IPv4 it is replaced; in IPv6, where routes with another metric are others, ours comes first
// and then the kernel's is removed.
func (d dummy) route(link netlink.Link, a, src netip.Addr) error {
	r := &netlink.Route{
		LinkIndex: link.Attrs().Index, Dst: host(a), Src: src.AsSlice(),
		Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL, Protocol: unix.RTPROT_KERNEL,
	}
	if a.Is4() {
		r.Scope = netlink.SCOPE_HOST
	} else {
		r.Priority, r.Protocol = localMetric, unix.RTPROT_STATIC
	}
	if err := netlink.RouteReplace(r); err != nil {
		return fmt.Errorf("ipvs: route to %s with source %s: %w", a, src, err)
	}
	if a.Is4() {
		return nil
	}
	return d.forgetOwn(link, a)
}

// localMetric is that of our local routes in IPv6; the kernel's is 0.
const localMetric = 512

// forgetOwn removes the kernel's own local route of an IPv6 address, which differs from ours
// in its protocol. To look for it would list all routes of the machine.
func (d dummy) forgetOwn(link netlink.Link, a netip.Addr) error {
	err := netlink.RouteDel(&netlink.Route{
		LinkIndex: link.Attrs().Index, Dst: host(a), Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL, Protocol: unix.RTPROT_KERNEL,
	})
	if err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("ipvs: remove the kernel's route to %s: %w", a, err)
	}
	return nil
}

func (d dummy) unbind(a netip.Addr) error {
	link, err := d.find()
	if err != nil || link == nil {
		return err
	}
	// The kernel's own removal of the route does not find ours: its source is another one.
	r := &netlink.Route{
		LinkIndex: link.Attrs().Index, Dst: host(a), Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL, Scope: netlink.SCOPE_HOST,
	}
	if a.Is6() {
		r.Scope, r.Priority = netlink.SCOPE_UNIVERSE, localMetric
	}
	if err = netlink.RouteDel(r); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("ipvs: remove route to %s: %w", a, err)
	}
	err = netlink.AddrDel(link, &netlink.Addr{IPNet: host(a)})
	if err != nil && !errors.Is(err, syscall.EADDRNOTAVAIL) {
		return fmt.Errorf("ipvs: unbind %s from %s: %w", a, d.name, err)
	}
	return nil
}

func (d dummy) remove() error {
	link, err := d.find()
	if err != nil || link == nil {
		return err
	}
	if err := netlink.LinkDel(link); err != nil {
		return fmt.Errorf("ipvs: remove interface %s: %w", d.name, err)
	}
	return nil
}

func host(a netip.Addr) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
}
