package allocator

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/vipkit/vipkit/internal/ip"
)

// planFamilies sets policy and families of the new object.
func (p *planner) planFamilies() {
	if !needsAddress(p.after) || p.untouchedPrefer() {
		return
	}
	spec := &p.after.Spec
	if spec.IPFamilyPolicy == nil {
		policy := p.defaultPolicy()
		spec.IPFamilyPolicy = &policy
	}
	if p.before != nil {
		p.downgrade()
	}
	p.checkFamilies()
	p.inferFamilies()
	if len(p.errs) > 0 {
		return
	}
	if isHeadless(p.after) && len(spec.Selector) == 0 {
		// Its endpoints are not the cluster's, so any family will do.
		p.completeFamilies([]corev1.IPFamily{p.cluster.Families[0], otherFamily(p.cluster.Families[0])})
		return
	}
	p.checkConfigured()
	if len(p.errs) == 0 {
		p.completeFamilies(p.cluster.Families)
	}
}

// untouchedPrefer reports whether this is an update that must not upgrade or
// downgrade, because everything that counts is as before.
func (p *planner) untouchedPrefer() bool {
	if p.before == nil || p.before.Spec.Type != p.after.Spec.Type {
		return false
	}
	before, after := &p.before.Spec, &p.after.Spec
	return isPolicy(after.IPFamilyPolicy, corev1.IPFamilyPolicyPreferDualStack) &&
		(before.IPFamilyPolicy == nil || isPolicy(before.IPFamilyPolicy, corev1.IPFamilyPolicyPreferDualStack)) &&
		slices.Equal(before.ClusterIPs, after.ClusterIPs) &&
		slices.Equal(before.IPFamilies, after.IPFamilies)
}

func (p *planner) defaultPolicy() corev1.IPFamilyPolicy {
	switch {
	case p.before != nil && p.before.Spec.IPFamilyPolicy != nil:
		return *p.before.Spec.IPFamilyPolicy
	case isHeadless(p.after) && len(p.after.Spec.Selector) == 0:
		return corev1.IPFamilyPolicyRequireDualStack
	}
	return corev1.IPFamilyPolicySingleStack
}

func (p *planner) singleStack() bool {
	return isPolicy(p.after.Spec.IPFamilyPolicy, corev1.IPFamilyPolicySingleStack)
}

// downgrade drops the second address and family of what becomes SingleStack, if
// the user left these lists alone, and refuses to drop them otherwise.
func (p *planner) downgrade() {
	before, after := &p.before.Spec, &p.after.Spec
	if p.singleStack() {
		if len(after.ClusterIPs) == 2 && slices.Equal(before.ClusterIPs, after.ClusterIPs) {
			after.ClusterIPs = after.ClusterIPs[:1:1]
		}
		if len(after.IPFamilies) == 2 && slices.Equal(before.IPFamilies, after.IPFamilies) {
			after.IPFamilies = after.IPFamilies[:1:1]
		}
		return
	}
	const hint = "a second one can be dropped only together with ipFamilyPolicy SingleStack"
	if n := len(after.ClusterIPs); n > 0 && n < len(before.ClusterIPs) {
		p.fail(field.Invalid(specPath().Child("clusterIPs"), after.ClusterIPs, hint))
	}
	if n := len(after.IPFamilies); n > 0 && n < len(before.IPFamilies) {
		p.fail(field.Invalid(specPath().Child("ipFamilies"), after.IPFamilies, hint))
	}
}

// checkFamilies checks policy and lists for themselves. The policy is set.
func (p *planner) checkFamilies() {
	spec := &p.after.Spec
	families, ips := specPath().Child("ipFamilies"), specPath().Child("clusterIPs")
	policies := []corev1.IPFamilyPolicy{
		corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack, corev1.IPFamilyPolicySingleStack,
	}
	if !slices.Contains(policies, *spec.IPFamilyPolicy) {
		p.fail(field.NotSupported(specPath().Child("ipFamilyPolicy"), *spec.IPFamilyPolicy, policies))
	}
	most := 2
	if p.singleStack() {
		most = 1
	}
	if len(spec.IPFamilies) > most {
		p.fail(field.Invalid(families, spec.IPFamilies, fmt.Sprintf("at most %d with this ipFamilyPolicy", most)))
	}
	if len(spec.ClusterIPs) > most {
		p.fail(field.Invalid(ips, spec.ClusterIPs, fmt.Sprintf("at most %d with this ipFamilyPolicy", most)))
	}
	for i, f := range spec.IPFamilies {
		if unknownFamily(f) {
			p.fail(field.NotSupported(families.Index(i), f, []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}))
		}
		if slices.Contains(spec.IPFamilies[:i], f) {
			p.fail(field.Duplicate(families.Index(i), f))
		}
	}
}

// inferFamilies takes families that are missing from the addresses, and checks
// those that are given against them.
func (p *planner) inferFamilies() {
	spec := &p.after.Spec
	if isHeadless(p.after) {
		if len(spec.ClusterIPs) > 1 {
			p.fail(field.Invalid(specPath().Child("clusterIPs"), spec.ClusterIPs, "None must be the only entry"))
		}
		return
	}
	for i, text := range spec.ClusterIPs {
		path := specPath().Child("clusterIPs").Index(i)
		addr, ok := ip.ParseAddr(text)
		switch {
		case !ok:
			p.fail(field.Invalid(path, text, "not an IP address"))
			return
		case i >= len(spec.IPFamilies):
			spec.IPFamilies = append(spec.IPFamilies, ip.Family(addr))
			if slices.Contains(spec.IPFamilies[:i], ip.Family(addr)) {
				p.fail(field.Invalid(path, text, "two addresses must be of different families"))
			}
		case spec.IPFamilies[i] != ip.Family(addr):
			p.fail(field.Invalid(path, text, "not of family "+string(spec.IPFamilies[i])+" as ipFamilies says"))
		}
	}
}

// checkConfigured checks the families against those of the cluster.
func (p *planner) checkConfigured() {
	spec := &p.after.Spec
	for i, f := range spec.IPFamilies {
		if !slices.Contains(p.cluster.Families, f) {
			p.fail(field.Invalid(specPath().Child("ipFamilies").Index(i), f, "not a family of this cluster"))
		}
	}
	if isPolicy(spec.IPFamilyPolicy, corev1.IPFamilyPolicyRequireDualStack) && len(p.cluster.Families) < 2 {
		p.fail(field.Invalid(specPath().Child("ipFamilyPolicy"), *spec.IPFamilyPolicy, "this cluster has one family only"))
	}
}

// completeFamilies adds what is missing from available, the primary one first.
func (p *planner) completeFamilies(available []corev1.IPFamily) {
	spec := &p.after.Spec
	for _, f := range available {
		full := len(spec.IPFamilies) == 2 || len(spec.IPFamilies) == 1 && p.singleStack()
		if !full && !slices.Contains(spec.IPFamilies, f) {
			spec.IPFamilies = append(spec.IPFamilies, f)
		}
	}
}

func isPolicy(p *corev1.IPFamilyPolicy, want corev1.IPFamilyPolicy) bool {
	return p != nil && *p == want
}

func otherFamily(f corev1.IPFamily) corev1.IPFamily {
	if f == corev1.IPv4Protocol {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

func unknownFamily(f corev1.IPFamily) bool {
	return f != corev1.IPv4Protocol && f != corev1.IPv6Protocol
}

// text renders families for errors.
func text(families []corev1.IPFamily) string {
	parts := make([]string, len(families))
	for i, f := range families {
		parts[i] = string(f)
	}
	return strings.Join(parts, ",")
}
