package wholeproxy

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// addressEverywhere gives every interface of the node its first IPv6 address.
//
// kube-proxy's ipvs mode binds ClusterIPs to an interface as addresses that are as good as any other. What leaves by an interface
// without a global address, as those of pods often are, is then masqueraded with a ClusterIP if that is more like the
// endpoint's address than the node's is, and no scenario would be about anything else.
func addressEverywhere(addresses []netip.Addr) error {
	links, err := netlink.LinkList()
	if err != nil {
		return err
	}
	for _, a := range addresses {
		if a.Is4() {
			continue
		}
		addr, err := netlink.ParseAddr(netip.PrefixFrom(a, a.BitLen()).String())
		if err != nil {
			return err
		}
		addr.Flags = unix.IFA_F_NODAD
		for _, l := range links {
			if err := netlink.AddrAdd(l, addr); err != nil && !errors.Is(err, unix.EEXIST) {
				return fmt.Errorf("%s on %s: %w", a, l.Attrs().Name, err)
			}
		}
		return nil
	}
	return nil
}
