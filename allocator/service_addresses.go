package allocator

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/vipkit/vipkit/internal/ip"
)

// planAddresses plans the ClusterIPs of the new object, whose families are set.
func (p *planner) planAddresses() {
	if !needsAddress(p.after) {
		p.refuseAddresses()
		if p.before != nil {
			p.releaseAddresses(0)
		}
		return
	}
	p.checkAddresses()
	if len(p.errs) > 0 || isHeadless(p.after) {
		return
	}
	had := 0
	if p.before != nil && needsAddress(p.before) {
		had = len(p.before.Spec.ClusterIPs)
	}
	for i := had; i < len(p.after.Spec.IPFamilies); i++ {
		p.claimAddress(i)
	}
	if p.before != nil {
		p.releaseAddresses(len(p.after.Spec.IPFamilies))
	}
}

// refuseAddresses refuses what an ExternalName cannot have.
func (p *planner) refuseAddresses() {
	spec := &p.after.Spec
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"clusterIPs", len(spec.ClusterIPs) > 0 || spec.ClusterIP != ""},
		{"ipFamilies", len(spec.IPFamilies) > 0},
		{"ipFamilyPolicy", spec.IPFamilyPolicy != nil},
	} {
		if f.set {
			p.fail(field.Forbidden(specPath().Child(f.name), "not with type ExternalName"))
		}
	}
}

// checkAddresses checks addresses against the type, and those of before against
// change.
func (p *planner) checkAddresses() {
	spec, ips := &p.after.Spec, specPath().Child("clusterIPs")
	if isHeadless(p.after) && canHaveNodePorts(p.after) {
		p.fail(field.Invalid(ips.Index(0), corev1.ClusterIPNone, "not with type "+string(spec.Type)))
	}
	first := ""
	if len(spec.ClusterIPs) > 0 {
		first = spec.ClusterIPs[0]
	}
	if first != spec.ClusterIP {
		p.fail(field.Invalid(ips, spec.ClusterIPs, "the first one must be the same as clusterIP"))
	}
	if p.before == nil || !needsAddress(p.before) {
		return
	}
	for i, old := range p.before.Spec.ClusterIPs {
		if i < len(spec.ClusterIPs) && !ip.SameAddr(old, spec.ClusterIPs[i]) {
			p.fail(field.Invalid(ips.Index(i), spec.ClusterIPs[i], "cannot be changed"))
		}
	}
	if isHeadless(p.before) && isHeadless(p.after) {
		return // it has no address that its families would have to fit
	}
	for i, old := range p.before.Spec.IPFamilies {
		if i < len(spec.IPFamilies) && spec.IPFamilies[i] != old {
			p.fail(field.Invalid(specPath().Child("ipFamilies").Index(i), spec.IPFamilies[i], "cannot be changed"))
		}
	}
}

// claimAddress plans the claim for family i, of the address that is given if any.
func (p *planner) claimAddress(i int) {
	spec := &p.after.Spec
	value := Value{Kind: ClusterIP, Family: spec.IPFamilies[i]}
	if i < len(spec.ClusterIPs) {
		value.Addr, _ = ip.ParseAddr(spec.ClusterIPs[i])
	}
	p.plan.Claims = append(p.plan.Claims, ServiceClaim{
		Value: value, Path: specPath().Child("clusterIPs").Index(i), Entries: []int{i},
	})
}

// releaseAddresses plans the release of the addresses of before from index keep
// on, but for families that the cluster has no longer: nobody could release them.
func (p *planner) releaseAddresses(keep int) {
	if !needsAddress(p.before) {
		return
	}
	for i, text := range p.before.Spec.ClusterIPs {
		addr, ok := ip.ParseAddr(text)
		if i < keep || !ok || !slices.Contains(p.cluster.Families, ip.Family(addr)) {
			continue
		}
		p.plan.Releases = append(p.plan.Releases, Value{Kind: ClusterIP, Family: ip.Family(addr), Addr: addr})
	}
}
