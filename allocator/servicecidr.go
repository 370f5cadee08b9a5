package allocator

import (
	"net/netip"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A cidrObject is what is used of a ServiceCIDR.
type cidrObject struct {
	ranges      []prefixRange
	ready       bool
	terminating bool
}

// newCIDRObject reads obj. An entry that cannot serve is reported and left out.
func newCIDRObject(obj *networkingv1.ServiceCIDR) (cidrObject, field.ErrorList) {
	if obj == nil {
		return cidrObject{}, field.ErrorList{field.Required(field.NewPath("spec"), "there is no ServiceCIDR")}
	}
	o := cidrObject{terminating: obj.DeletionTimestamp != nil}
	o.ready = !o.terminating && ready(obj.Status.Conditions)
	var problems field.ErrorList
	path := field.NewPath("spec", "cidrs")
	for i, text := range obj.Spec.CIDRs {
		prefix, err := netip.ParsePrefix(text)
		if err == nil && (prefix != prefix.Masked() || prefix.String() != text || prefix.Addr().Is4In6()) {
			problems = append(problems, field.Invalid(path.Index(i), text, "not a canonical CIDR"))
			continue
		}
		var r prefixRange
		if err == nil {
			r, err = newPrefixRange(prefix)
		}
		if err != nil {
			problems = append(problems, field.Invalid(path.Index(i), text, err.Error()))
			continue
		}
		o.ranges = append(o.ranges, r)
	}
	return o, problems
}

// ready reports whether the Ready condition is true or missing, so that
// addresses can be had while the controller that sets it is down.
func ready(conditions []metav1.Condition) bool {
	for _, c := range conditions {
		if c.Type == networkingv1.ServiceCIDRConditionReady {
			return c.Status == metav1.ConditionTrue
		}
	}
	return true
}

// equal reports whether both mean the same.
func (o cidrObject) equal(other cidrObject) bool {
	if o.ready != other.ready || o.terminating != other.terminating || len(o.ranges) != len(other.ranges) {
		return false
	}
	for i, r := range o.ranges {
		if r != other.ranges[i] {
			return false
		}
	}
	return true
}
