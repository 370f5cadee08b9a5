package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/internal/ip"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// A cause is a known difference to kube-proxy, which ARCHITECTURE.md names.
type cause struct{ id, why string }

func causes() []cause {
	return []cause{
		{"K1", "kube-proxy applies no-endpoint verdicts to translated packets, too, if their endpoint is on a frontend's address"},
		{"K2", "an exact address without endpoints beats a NodePort of the same number in vipkit only"},
		{"K3", "two Services on one address and port: vipkit has one owner for all origins, kube-proxy whatever it wrote last"},
		{"K4", "an endpoint that reaches itself is masqueraded wherever it runs; kube-proxy does that for endpoints with its own nodeName only"},
	}
}

// explain returns the id of the cause of a difference, "" if none is known. A cause explains only what differs between kube-proxy and
// vipkit: vipkit's backends must agree with each other and with the plan.
func explain(d difference, q *question, pl *plan.Plan) string {
	ours := func(name string) bool { return strings.HasPrefix(name, "vipkit") }
	if q == nil || !oursAgree(d, q) || slices.ContainsFunc(d.moved, ours) {
		return ""
	}
	if slices.ContainsFunc(q.trace.Hairpin, func(e *endpoints.Endpoint) bool { return !e.IsOn(nodeName) }) {
		return "K4"
	}
	if d.Kind != "packet" && d.Kind != "affinity" {
		return ""
	}
	if slices.ContainsFunc(pl.Conflicts(), func(c plan.Conflict) bool { return c.Addr.Port() == q.to.Port() && c.Protocol == q.proto }) {
		return "K3"
	}
	for _, e := range q.trace.Endpoints {
		if _, f := pl.Lookup(e.Addr, q.proto); f != nil && f.Actions[plan.FromOutside].Verdict != plan.Forward {
			return "K1"
		}
	}
	if _, f := pl.Lookup(q.to, q.proto); f != nil && isNode(q.to.Addr()) {
		if _, np := pl.LookupNodePort(ip.Family(q.to.Addr()), q.to.Port(), q.proto); np != nil {
			return "K2"
		}
	}
	return ""
}

// oursAgree reports whether the answers of our backends are among those of the plan. Where that is vague, the network may swallow some.
func oursAgree(d difference, q *question) bool {
	for name, got := range d.Got {
		if !strings.HasPrefix(name, "vipkit") {
			continue
		}
		for o := range strings.SplitSeq(got, " | ") {
			if !q.want[plain(o)] && !(q.vague && o == timeout) {
				return false
			}
		}
	}
	return true
}

// fresh makes the plan anew from the objects, so that it is also a check of the one that was updated step by step. It knows all
// local addresses of the node.
func (c *cluster) fresh() (*plan.Plan, error) {
	settings := c.settings
	settings.Addresses = slices.Concat(settings.Addresses, foreignAddrs(), c.localVIPs)
	cfg, err := settings.Config()
	if err != nil {
		return nil, err
	}
	services := service.NewServiceChangeTracker(service.Options{})
	for s := range maps.Values(c.services) {
		services.Set(s)
	}
	sets := endpoints.NewEndpointsChangeTracker(endpoints.Options{})
	for s := range maps.Values(c.slices) {
		sets.Set(s)
	}
	p, _ := plan.New(cfg).Update(plan.Input{Services: services.Take().Services, Endpoints: sets.Take().Sets})
	return p, nil
}
