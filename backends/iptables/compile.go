package iptables

import (
	"bytes"
	"net/netip"
	"slices"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
)

// Compile returns the objects of a port, and those of the family for nil.
func (d *dialect) Compile(p *plan.Plan, port *plan.Port, _ []object) ([]object, error) {
	switch {
	case port == nil:
		return d.compileNode(p)
	case port.Family != d.ip:
		return nil, nil
	}
	if err := d.refused(port); err != nil {
		return nil, err
	}
	return d.layoutOf(p).compile(port), nil
}

// compileNode returns what every node has: fixed chains, jumps to them, and trees.
func (d *dialect) compileNode(p *plan.Plan) ([]object, error) {
	l := d.layoutOf(p)
	if l.servesLoopback() && d.localnetErr != nil {
		return nil, d.localnetErr
	}
	var out []object
	for t := range table(numTables) {
		for _, c := range l.fixedChains(t) {
			out = append(out, object{ID: id{kindChain, int(t), c.name}, Value: content{chain: c}})
		}
		for _, j := range hookJumps(t) {
			out = append(out, object{ID: id{kindJump, int(t), j.base}, Value: content{do: j.rule(d.opts.Name)}})
		}
		out = append(out, object{ID: id{kind: kindTrees, in: int(t)}, Value: content{do: asWritten}})
	}
	if l.guard {
		out = append(out, object{ID: id{kind: kindLoopback}, Value: content{do: "1"}})
	}
	return out, nil
}

// compile returns what a port has in the tables of its family.
func (l *layout) compile(p *plan.Port) []object {
	c := compiler{layout: l, port: p, proto: protocolOf(p.Protocol), about: keyText(p.Key)}
	for i := range p.Frontends {
		f := &p.Frontends[i]
		c.forward(f)
		c.deny(f)
		if f.Kind == plan.ClusterIP {
			c.share(treeClusterIPs, addrSite(f.Addr), doReject)
		}
	}
	if p.HealthCheckNodePort != 0 {
		c.share(treeHealth, siteOf(netip.Addr{}, protocolTCP, p.HealthCheckNodePort), doAccept)
	}
	return c.objects
}

// A compiler makes the objects of one port.
type compiler struct {
	*layout
	port    *plan.Port
	proto   protocol
	about   string
	objects []object
}

// add makes a chain unless it is there.
func (c *compiler) add(t table, name string, rules func() []string) string {
	at := id{kindChain, int(t), name}
	if !slices.ContainsFunc(c.objects, func(o object) bool { return o.ID == at }) {
		c.objects = append(c.objects, object{ID: at, Value: content{chain: &chain{name: name, about: c.about, rules: rules()}}})
	}
	return name
}

// put says what is done at a frontend.
func (c *compiler) put(at place, do string) {
	c.objects = append(c.objects, object{ID: at.id(), Value: content{do: do}})
}

// share says what is done at a site that other ports may have too.
func (c *compiler) share(t tree, at site, do string) {
	c.objects = append(c.objects, object{ID: place{t, at}.id(), Value: content{do: do}, Shared: true})
}

// siteText tells the chains of frontends apart.
func (c *compiler) siteText(f *plan.Frontend) string { return f.String() + " " + c.proto.String() }

// placeOf returns where a frontend is dispatched.
func (c *compiler) placeOf(f *plan.Frontend, ips, ports tree) place {
	if f.Kind == plan.NodePort {
		return place{ports, siteOf(netip.Addr{}, c.proto, f.Port)}
	}
	return place{ips, siteOf(f.Addr, c.proto, f.Port)}
}

// forward adds what table nat does at a frontend: nothing if no packet is forwarded. What
// is not forwarded at an external address must not be taken for a NodePort's.
func (c *compiler) forward(f *plan.Frontend) {
	at := c.placeOf(f, treeIPs, treePorts)
	s := f.Forwarding()
	switch {
	case s.Forwards() && f.Restricted:
		c.put(at, goTo(c.add(nat, hashed(letterFirewall, c.siteText(f)), func() []string {
			target := goTo(c.row(s))
			rules := make([]string, 0, len(f.Allow)+1)
			for _, p := range f.Allow {
				rules = append(rules, words(source(p), target))
			}
			return append(rules, doAccept)
		})))
	case s.Forwards():
		c.put(at, goTo(c.row(s)))
	case f.Kind == plan.ExternalIP || f.Kind == plan.LoadBalancerIP:
		c.put(at, doAccept)
	}
}

// row returns the chain that forwards by origin: that of the pool itself if
// nothing else is to be done, or if only packets of this row come there.
func (c *compiler) row(s plan.Shape) string {
	if letter, ok := s.Uniform(false); ok && (letter == plan.LetterCluster || letter == plan.LetterLocal) {
		return c.pool(letter)
	}
	if mark, letter, ok := c.markFirst(s); ok && c.onlyRow(s, letter) {
		name := c.poolName(letter)
		return c.add(nat, name, func() []string { return append([]string{mark}, c.choose(letter)...) })
	}
	name := hashed(letterRow, c.about+" "+s.String())
	return c.add(nat, name, func() []string { return c.byOrigin(s, c.forwardBy) })
}

// forwardBy returns what is done for one letter, one rule each.
func (c *compiler) forwardBy(letter byte) []string {
	switch letter {
	case plan.LetterCluster, plan.LetterLocal:
		return []string{goTo(c.pool(letter))}
	case plan.LetterClusterMasq:
		return []string{c.setMark(), goTo(c.pool(plan.LetterCluster))}
	case plan.LetterLocalMasq:
		return []string{c.setMark(), goTo(c.pool(plan.LetterLocal))}
	default:
		return []string{doAccept}
	}
}

// markFirst returns the rule that marks what a row masquerades, if one rule can say that and all
// that the row forwards goes to one pool.
func (c *compiler) markFirst(s plan.Shape) (rule string, letter byte, ok bool) {
	switch s {
	case plan.Shape{plan.LetterClusterMasq, plan.LetterClusterMasq, plan.LetterClusterMasq}:
		return c.setMark(), plan.LetterCluster, true
	case plan.Shape{plan.LetterLocalMasq, plan.LetterLocalMasq, plan.LetterLocalMasq}:
		return c.setMark(), plan.LetterLocal, true
	case plan.Shape{plan.LetterCluster, plan.LetterClusterMasq, plan.LetterClusterMasq}:
		letter = plan.LetterCluster
	case plan.Shape{plan.LetterLocal, plan.LetterLocalMasq, plan.LetterLocalMasq}:
		letter = plan.LetterLocal
	}
	pods := c.podSources()
	if letter == 0 || len(pods) != 1 {
		return "", 0, false
	}
	return words("!", pods[0], c.setMark()), letter, true
}

// onlyRow reports whether no other row of the port sends packets to the pool of a letter.
func (c *compiler) onlyRow(s plan.Shape, letter byte) bool {
	masq := byte(plan.LetterClusterMasq)
	if letter == plan.LetterLocal {
		masq = plan.LetterLocalMasq
	}
	for i := range c.port.Frontends {
		other := c.port.Frontends[i].Forwarding()
		if other != s && bytes.ContainsAny(other[:], string([]byte{letter, masq})) {
			return false
		}
	}
	return true
}

func (c *compiler) poolName(letter byte) string {
	if letter == plan.LetterLocal {
		return hashed(letterLocal, c.about)
	}
	return hashed(letterCluster, c.about)
}

// pool returns the chain that chooses an endpoint of one pool.
func (c *compiler) pool(letter byte) string {
	return c.add(nat, c.poolName(letter), func() []string { return c.choose(letter) })
}

// choose returns rules that send a packet to one endpoint of a pool: the one the client
// used before, if there is affinity, else each with the same probability.
func (c *compiler) choose(letter byte) []string {
	list := c.port.Cluster
	if letter == plan.LetterLocal {
		list = c.port.Local
	}
	affine := c.port.AffinityTimeout > 0
	var rules []string
	for _, e := range list {
		if affine {
			rules = append(rules, words(recall(c.clients(e), c.port.AffinityTimeout), translate(c.proto, e)))
		}
	}
	for i, e := range list {
		var set string
		if affine {
			set = remember(c.clients(e))
		}
		rules = append(rules, words(oneOf(len(list)-i), set, translate(c.proto, e)))
	}
	return rules
}

// clients names the kernel's list of the clients of an endpoint, the same in both pools.
func (c *compiler) clients(e *endpoints.Endpoint) string {
	return "@" + hashText(c.about+" "+e.String())
}

// deny adds what table filter does with packets for a frontend that nothing translated.
//
// Where an endpoint is at the very address and port of the frontend, translating changes nothing, and the kernel
// does not take it down as a translation. So there origin and source ranges decide again, not whether something
// was translated.
func (c *compiler) deny(f *plan.Frontend) {
	at := c.placeOf(f, treeDenyIPs, treeDenyPorts)
	s := f.Denying()
	stays := c.port.HasEndpointAt(f)
	letter, one := s.Uniform(!stays)
	var do string
	switch {
	case one && letter == plan.LetterPass && !f.Restricted:
		return
	case one && letter == plan.LetterReject:
		do = doReject
	case one && letter == plan.LetterPass && stays:
		do = doReturn
	case one:
		do = doDrop
	default:
		do = goTo(c.add(filter, hashed(letterOrigin, c.siteText(f)), func() []string { return c.byOrigin(s, denyBy) }))
	}
	if !f.Restricted || do == doDrop {
		c.put(at, do)
		return
	}
	c.put(at, goTo(c.add(filter, hashed(letterRefuse, c.siteText(f)), func() []string {
		rules := make([]string, 0, len(f.Allow)+1)
		for _, p := range f.Allow {
			rules = append(rules, words(source(p), do))
		}
		return append(rules, doDrop)
	})))
}

func denyBy(letter byte) []string {
	switch letter {
	case plan.LetterReject:
		return []string{doReject}
	case plan.LetterDrop:
		return []string{doDrop}
	default:
		return []string{doReturn}
	}
}
