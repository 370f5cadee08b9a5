package ipvs

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/knftables"

	"github.com/vipkit/vipkit/backends/engine"
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
	r := &rendered{newDialect(opts, nil), make(map[id]value)}
	if err := engine.New(r, engine.Options{Name: "ipvs"}).Sync(context.Background(), plan.Full(p)); err != nil {
		return "", err
	}
	var out strings.Builder
	tx := knftables.NewFake(knftables.InetFamily, opts.Name).NewTransaction()
	declare(tx, r.objects[id{kind: kindRules}].rules, true)
	for _, at := range slices.SortedFunc(maps.Keys(r.objects), compareID) {
		v := r.objects[at]
		switch at.kind {
		case kindAddress:
			fmt.Fprintf(&out, "local %s dev lo", v.addr)
			if v.source.IsValid() {
				fmt.Fprintf(&out, " src %s", v.source)
			}
			out.WriteByte('\n')
		case kindServer:
			v.server.dump(&out)
		}
		for _, e := range v.elements {
			tx.Add(e.object())
		}
	}
	out.WriteString(tx.String())
	return out.String(), nil
}

func compareID(a, b id) int {
	return cmp.Or(strings.Compare(a.kind, b.kind), strings.Compare(a.name, b.name))
}

// rendered is a kernel that is empty and remembers what is written.
type rendered struct {
	*dialect
	objects map[id]value
}

func (*rendered) List(context.Context) (iter.Seq2[id, value], error) {
	return maps.All(map[id]value{}), nil
}

func (r *rendered) Write(_ context.Context, edits []edit) error {
	for _, e := range edits {
		r.objects[e.ID] = *e.New
	}
	return nil
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
