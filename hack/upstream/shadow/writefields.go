package shadow

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/vipkit/vipkit/allocator"
)

// compareFields lists the fields of the stored object that differ. Values that were picked may
// be any, but nobody may have held them.
func (a *applied) compareFields(upstream *corev1.Service) []string {
	ours, theirs := a.service.Spec, upstream.Spec
	bad := a.compareClusterIPs(theirs.ClusterIPs)
	for _, f := range []struct{ name, theirs, ours string }{
		{"clusterIP is set", fmt.Sprint(theirs.ClusterIP != ""), fmt.Sprint(ours.ClusterIP != "")},
		{"ipFamilies", fmt.Sprint(theirs.IPFamilies), fmt.Sprint(ours.IPFamilies)},
		{"ipFamilyPolicy", text(theirs.IPFamilyPolicy), text(ours.IPFamilyPolicy)},
		{"externalTrafficPolicy", string(theirs.ExternalTrafficPolicy), string(ours.ExternalTrafficPolicy)},
		{"nodePorts", a.shape(theirs.Ports), a.shape(ours.Ports)},
		{"healthCheckNodePort", a.healthPort(theirs), a.healthPort(ours)},
	} {
		if f.theirs != f.ours {
			bad = append(bad, fmt.Sprintf("%s: upstream %s, vipkit %s", f.name, f.theirs, f.ours))
		}
	}
	return bad
}

func (a *applied) compareClusterIPs(theirs []string) []string {
	ours := a.service.Spec.ClusterIPs
	if len(theirs) != len(ours) {
		return []string{fmt.Sprintf("clusterIPs: upstream %v, vipkit %v", theirs, ours)}
	}
	var bad []string
	for i, ip := range theirs {
		switch free := a.picked[fmt.Sprint("ip/", i)]; {
		case free && !a.DryRun && (a.Held.Has(ip) || a.Held.Has(ours[i])):
			bad = append(bad, fmt.Sprintf("clusterIPs: picked %s, %s of %v", ip, ours[i], sets.List(a.Held)))
		case !free && ip != ours[i]:
			bad = append(bad, fmt.Sprintf("clusterIPs: upstream %v, vipkit %v", theirs, ours))
		}
	}
	return bad
}

func text[T ~string](p *T) string {
	if p == nil {
		return "nil"
	}
	return string(*p)
}

// shape writes the NodePorts so that those which were picked are the same if they are for the
// same ports.
func (a *applied) shape(ports []corev1.ServicePort) string {
	first := map[int32]int{}
	var out []string
	for i, p := range ports {
		switch {
		case p.NodePort != 0 && a.picked[fmt.Sprint("port/", i)]:
			if _, ok := first[p.NodePort]; !ok {
				first[p.NodePort] = i
			}
			out = append(out, fmt.Sprint("like ", first[p.NodePort]))
		default:
			out = append(out, fmt.Sprint(p.NodePort))
		}
	}
	return join(out)
}

func (a *applied) healthPort(s corev1.ServiceSpec) string {
	if s.HealthCheckNodePort != 0 && a.picked["health"] {
		return "picked"
	}
	return fmt.Sprint(s.HealthCheckNodePort)
}

// compareHeld lists how what upstream's allocators took and gave back differs from the plan.
func (a *applied) compareHeld(now sets.Set[string]) []string {
	added, removed := now.Difference(a.Held), a.Held.Difference(now)
	explicit, picks, released := sets.New[string](), 0, sets.New[string]()
	for _, c := range a.plan.Claims {
		if c.Explicit() {
			explicit.Insert(heldText(c.Value))
		} else {
			picks++
		}
	}
	for _, v := range a.plan.Releases {
		released.Insert(heldText(v))
	}
	var bad []string
	if !added.IsSuperset(explicit) || len(added)-len(explicit) != picks {
		bad = append(bad, fmt.Sprintf("claims: upstream %v, vipkit %v and %d picked", sets.List(added), sets.List(explicit), picks))
	}
	if !released.Equal(removed) {
		bad = append(bad, fmt.Sprintf("releases: upstream %v, vipkit %v", sets.List(removed), sets.List(released)))
	}
	return bad
}

func heldText(v allocator.Value) string {
	if v.Kind == allocator.ClusterIP {
		return v.Addr.String()
	}
	return fmt.Sprint("port/", v.Port)
}
