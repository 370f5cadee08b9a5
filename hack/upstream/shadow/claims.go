package shadow

import (
	"net"
	"slices"
	"strconv"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/utils/net"
)

// claims are all endpoints that slices of one Service have, by "port/PROTOCOL address".
type claims map[string][]Endpoint

// claimed returns the claims of the current slices of a Service.
func (s *Slices) claimed(name types.NamespacedName) claims {
	out := claims{}
	for _, slice := range s.objects {
		if serviceOf(slice) != name {
			continue
		}
		for _, p := range slice.Ports {
			if key := portKey(p); key != "" {
				out.add(key, *p.Port, slice.Endpoints)
			}
		}
	}
	return out
}

func (c claims) add(key string, port int32, eps []discoveryv1.Endpoint) {
	for _, e := range eps {
		if len(e.Addresses) == 0 {
			continue
		}
		ip := utilnet.ParseIPSloppy(e.Addresses[0])
		if ip == nil {
			continue
		}
		text := net.JoinHostPort(ip.String(), strconv.Itoa(int(port)))
		claim := Endpoint{
			Text:        text,
			Ready:       value(e.Conditions.Ready, true),
			Serving:     value(e.Conditions.Serving, true),
			Terminating: value(e.Conditions.Terminating, false),
		}
		c[key+" "+text] = append(c[key+" "+text], claim)
	}
}

func value(p *bool, otherwise bool) bool {
	if p == nil {
		return otherwise
	}
	return *p
}

// explain reports whether the answers differ only in endpoints that were claimed more than
// once. Of those upstream takes any that does not terminate, if there is one; what else it has
// depends on the order of a Go map. So ours has to have the conditions of a claim, and to
// terminate only if upstream's does.
func (c claims) explain(upstream, ours EndpointMap) bool {
	if len(upstream) != len(ours) {
		return false
	}
	for key, theirs := range upstream {
		mine := byText(ours[key])
		if len(mine) != len(theirs) {
			return false
		}
		for i, t := range byText(theirs) {
			if !c.allow(key, t, mine[i]) {
				return false
			}
		}
	}
	return true
}

func (c claims) allow(key string, upstream, ours Endpoint) bool {
	if upstream.Text != ours.Text || upstream.Terminating != ours.Terminating {
		return false
	}
	all := c[key+" "+ours.Text]
	same := func(e Endpoint) bool {
		return e.Ready == ours.Ready && e.Serving == ours.Serving && e.Terminating == ours.Terminating
	}
	if len(all) == 1 {
		return (EndpointMap{"": {upstream}}).String() == (EndpointMap{"": {ours}}).String()
	}
	return slices.ContainsFunc(all, same)
}

func byText(eps []Endpoint) []Endpoint {
	return slices.SortedFunc(slices.Values(eps), func(a, b Endpoint) int {
		return slices.Compare([]byte(a.Text), []byte(b.Text))
	})
}
