package ipvs

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/knftables"

	"github.com/vipkit/vipkit/proxy/plan"
)

// Render returns as text what a Backend that starts with an empty kernel makes for p: the
// local routes, the virtual servers as ipvsadm --restore reads them, and the nftables table as
// nft -f does. It needs no kernel. Other addresses of the machine than the plan's are not known here.
func Render(p *plan.Plan, opts Options) (string, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return "", err
	}
	l := &memoryLinks{}
	opts.Kernel = &Memory{}
	b := newBackend(opts, l)
	fake := knftables.NewFake(knftables.InetFamily, b.opts.Name)
	b.nft = fake
	if err := b.Sync(context.Background(), plan.Full(p)); err != nil {
		return "", err
	}
	var out strings.Builder
	for _, a := range slices.SortedFunc(maps.Keys(l.ours), netip.Addr.Compare) {
		fmt.Fprintf(&out, "local %s dev lo", a)
		if src := l.ours[a]; src.IsValid() {
			fmt.Fprintf(&out, " src %s", src)
		}
		out.WriteByte('\n')
	}
	for _, k := range slices.SortedFunc(maps.Keys(b.servers), ServerKey.Compare) {
		v := b.servers[k]
		v.dump(&out)
	}
	out.WriteString(fake.Dump())
	return out.String(), nil
}

// dump writes what ipvsadm --save would.
func (v *VirtualServer) dump(out *strings.Builder) {
	name := v.option()
	fmt.Fprintf(out, "-A %s -s %s", name, v.Scheduler)
	if v.Persistence > 0 {
		fmt.Fprintf(out, " -p %d", v.Persistence/time.Second)
	}
	var flags []string
	if v.HashFallback {
		flags = append(flags, "flag-1")
	}
	if v.HashPort {
		flags = append(flags, "flag-2")
	}
	if len(flags) > 0 {
		fmt.Fprintf(out, " -b %s", strings.Join(flags, ","))
	}
	out.WriteByte('\n')
	for _, s := range v.Real {
		fmt.Fprintf(out, "-a %s -r %s -m -w %d\n", name, s.Addr, s.Weight)
	}
}

// option names the virtual server as ipvsadm does.
func (v *VirtualServer) option() string {
	switch {
	case v.Mark != 0 && v.Family == corev1.IPv6Protocol:
		return fmt.Sprintf("-f %d -6", v.Mark)
	case v.Mark != 0:
		return fmt.Sprintf("-f %d", v.Mark)
	case v.Protocol == corev1.ProtocolUDP:
		return "-u " + v.Addr.String()
	case v.Protocol == corev1.ProtocolSCTP:
		return "--sctp-service " + v.Addr.String()
	default:
		return "-t " + v.Addr.String()
	}
}
