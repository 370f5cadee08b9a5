package allocator_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/allocator"
)

// A dice takes choices from fuzz data, 0 once they are used up.
type dice struct{ data []byte }

func (d *dice) roll(sides int) int {
	if len(d.data) == 0 {
		return 0
	}
	n := int(d.data[0]) % sides
	d.data = d.data[1:]
	return n
}

// choose returns one of options.
func choose[T any](d *dice, options ...T) T { return options[d.roll(len(options))] }

// request is what a user might send: the stored object, or a new one, changed.
func (d *dice) request(stored *corev1.Service) *corev1.Service {
	base := service()
	if stored != nil && d.roll(2) == 0 {
		base = stored
	}
	edits := []edit{
		ofType(choose(d, typeClusterIP, typeNodePort, typeLoadBalancer, typeExternalName)),
		withPolicy(choose(d, "", "S", "P", "R")),
		autoNodePorts(d.roll(3) != 0),
		choose(d, edit(func(*corev1.Service) {}), localPolicy),
		choose(d, edit(func(*corev1.Service) {}), omitIPs, headless, withIPs("10.96.0.40"), withIPs("10.96.0.40", "fd00:10:96::40")),
		choose(d, edit(func(*corev1.Service) {}), omitFamilies, withFamilies("46"), withFamilies("64"), withFamilies("6")),
		choose(d, edit(func(*corev1.Service) {}), healthPort(0), healthPort(30007)),
	}
	var ports []string
	name := d.roll(4)
	for i := range 1 + d.roll(4) {
		ports = append(ports, string(rune('a'+(name+i)%4))+":"+choose(d, "53", "80")+"/"+choose(d, "TCP", "UDP", "SCTP")+choose(d, "", "", "=30007", "=30008", "=30090"))
	}
	return with(base, append(edits, withPorts(ports...))...)
}

// valuesOf returns what a stored Service must hold, in the form of cluster.state.
func valuesOf(svc *corev1.Service) string {
	if svc == nil || svc.Spec.Type == typeExternalName { // whose numbers are nobody's
		return ""
	}
	var out []string
	for _, ip := range svc.Spec.ClusterIPs {
		if ip != corev1.ClusterIPNone {
			out = append(out, ip+"=ns1/web")
		}
	}
	// IPv4 first, then IPv6, whichever is primary.
	slices.SortFunc(out, func(a, b string) int { return strings.Count(a, ":") - strings.Count(b, ":") })
	var ports []int32
	for _, n := range append(nodePorts(svc), svc.Spec.HealthCheckNodePort) {
		if n != 0 {
			ports = append(ports, n)
		}
	}
	slices.Sort(ports)
	for _, n := range slices.Compact(ports) {
		out = append(out, fmt.Sprintf("%d=ns1/web", n))
	}
	return strings.Join(out, " ")
}

// FuzzServiceLife changes one Service again and again. Whatever is asked for,
// after each commit exactly the values of the stored object are in use, and after
// each rollback those of the one before.
func FuzzServiceLife(f *testing.F) {
	f.Add([]byte{0, 1, 3, 1, 0, 0, 0, 0, 2, 0, 1, 0, 0, 1, 1, 1, 0, 0, 0, 2, 3, 1, 1, 0, 0, 0, 3})
	f.Add([]byte{1, 2, 3, 1, 1, 4, 0, 2, 4, 0, 0, 0, 2, 1, 0, 1, 0, 0, 3, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 9, 8, 7, 6, 5, 4, 3, 2, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		d := &dice{data}
		c := newCluster(t, choose(d, "46", "64", "4"))
		c.config.UpstreamNodePorts = d.roll(4) == 3
		var stored *corev1.Service
		for len(d.data) > 0 {
			after := d.request(stored)
			if stored != nil && d.roll(8) == 7 {
				after = nil
			}
			plan, errs := allocator.Plan(stored, after, c.config)
			if errs != nil {
				continue
			}
			txn, err := c.services.Apply(t.Context(), plan)
			if err != nil {
				t.Fatalf("%+v\nto %+v: %v", stored, after, err)
			}
			svc := txn.Service()
			if d.roll(4) == 3 {
				wantError(t, "Rollback", txn.Rollback(t.Context()), nil)
				svc = stored
			} else {
				wantError(t, "Commit", txn.Commit(t.Context()), nil)
			}
			if got, want := c.state(), valuesOf(svc); got != want {
				t.Fatalf("in use: %s\nwant:   %s\nfrom %+v\nto   %+v", got, want, stored, after)
			}
			stored = svc
		}
	})
}
