package topology

import "github.com/vipkit/vipkit/endpoints"

// pick returns the endpoints that keep wants, in the order of eps; nil if none.
// It copies only if they are not side by side in eps.
func pick(eps []*endpoints.Endpoint, keep func(*endpoints.Endpoint) bool) []*endpoints.Endpoint {
	first, last, n := 0, -1, 0
	for i, e := range eps {
		if !keep(e) {
			continue
		}
		if n == 0 {
			first = i
		}
		last = i
		n++
	}
	if n == 0 {
		return nil
	}
	if n == last-first+1 {
		return eps[first : last+1 : last+1]
	}
	out := make([]*endpoints.Endpoint, 0, n)
	for _, e := range eps[first : last+1] {
		if keep(e) {
			out = append(out, e)
		}
	}
	return out
}

// union returns the endpoints that are in a or in b, both of which were picked
// from eps. It copies only if neither includes the other.
func union(eps, a, b []*endpoints.Endpoint) []*endpoints.Endpoint {
	if includes(a, b) {
		return a
	}
	if includes(b, a) {
		return b
	}
	out := make([]*endpoints.Endpoint, 0, min(len(a)+len(b), len(eps)))
	for _, e := range eps {
		inA, inB := len(a) > 0 && a[0] == e, len(b) > 0 && b[0] == e
		if inA {
			a = a[1:]
		}
		if inB {
			b = b[1:]
		}
		if inA || inB {
			out = append(out, e)
		}
	}
	return out
}

// includes reports whether all of part is in whole; both are in the same order.
func includes(whole, part []*endpoints.Endpoint) bool {
	for _, e := range whole {
		if len(part) == 0 {
			return true
		}
		if part[0] == e {
			part = part[1:]
		}
	}
	return len(part) == 0
}
