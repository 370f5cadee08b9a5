package iptables

import (
	"net/netip"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// leafSize is how many rules for single sites a chain has at most. More are split.
const leafSize = 16

// fanOut is by how much smaller the groups are into which a chain is split. Four cost a packet the fewest
// rules: 2.5 on average.
const fanOut = 4

// A tree names one of the dispatches of a family.
type tree int

const (
	treeIPs tree = iota
	treePorts
	treeDenyIPs
	treeDenyPorts
	treeClusterIPs
	treeHealth
	numTrees = 6
)

// A treeKind is what is the same for a tree in both families.
type treeKind struct {
	table   table
	root    string
	about   string
	byIP    bool // sites have addresses
	denying bool // table filter takes up what is new before table nat, and forgets what is old after it
}

func trees() [numTrees]treeKind {
	return [numTrees]treeKind{
		treeIPs:        {nat, chainIPs, "frontends", true, false},
		treePorts:      {nat, chainPorts, "NodePorts", false, false},
		treeDenyIPs:    {filter, chainDenyIPs, "frontends that deny", true, true},
		treeDenyPorts:  {filter, chainDenyPorts, "NodePorts that deny", false, true},
		treeClusterIPs: {filter, chainClusterIPs, "ClusterIPs", true, false},
		treeHealth:     {filter, chainHealth, "health checks", false, false},
	}
}

func (t tree) root() string { return trees()[t].root }

// bits returns how many bits of a site are its address.
func (k treeKind) bits(f *family) int {
	if k.byIP {
		return f.bits
	}
	return 0
}

// isNode reports whether a chain is one of a tree below its root.
func isNode(name string) bool { return strings.HasPrefix(name, string(letterNode)+"-") }

// isTreeChain reports whether a chain of a table belongs to one of its trees.
func isTreeChain(t table, name string) bool {
	if isNode(name) {
		return true
	}
	for _, k := range trees() {
		if k.table == t && k.root == name {
			return true
		}
	}
	return false
}

// A dispatch is a tree of chains that finds a site in few rules. Its shape follows from the
// sites alone, not from the order in which they came: whether the sites with some first bits have a chain follows from
// their number and from that of the sites with fewer of these bits. So a change of one site
// touches only the chains on the way to it. The kernel of nftables refuses more than fifteen chains below each
// other, and the tables have five besides the tree, which has at most nine up to a million sites.
type dispatch struct {
	root  string // name of the chain that packets enter
	about string
	addrs int             // bits of an address, 0 if sites have none
	keys  []site          // sorted
	to    map[site]string // what a rule does after its match
}

func newDispatch(root, about string, addrBits int) *dispatch {
	return &dispatch{root: root, about: about, addrs: addrBits, to: make(map[site]string)}
}

// fill reads the sites of a tree from chains of the kernel, as far as it understands their rules.
func (d *dispatch) fill(read map[string]*chain, prefix string) {
	found := make(map[site]string)
	left, seen := []string{d.root}, map[string]bool{d.root: true}
	for len(left) > 0 {
		name := left[len(left)-1]
		left = left[:len(left)-1]
		c := read[name]
		if c == nil {
			continue
		}
		for _, r := range c.saved {
			_, _, words := cutDigest(splitQuoted(r))
			k, do, ok := d.parse(canonical(words, prefix+"-"))
			child := strings.TrimPrefix(do, goTo(""))
			switch {
			case isNode(child) && !seen[child]:
				seen[child] = true
				left = append(left, child)
			case ok && !isNode(child):
				found[k] = do
			}
		}
	}
	d.set(found)
}

// parse reads a canonical rule: the site that it matches and what it does there. ok is false if it matches something else.
func (d *dispatch) parse(options []string) (k site, do string, ok bool) {
	var a, end []byte
	ok = true
	for _, o := range options {
		name, value, _ := strings.Cut(o, " ")
		switch name {
		case "-d":
			p, err := netip.ParsePrefix(value)
			ok = ok && err == nil && p.IsSingleIP()
			a = p.Addr().AsSlice()
		case "-p":
			proto, known := protocolNamed(value)
			ok = ok && known
			end = append([]byte{byte(proto)}, end...)
		case "--dport":
			port, err := strconv.ParseUint(value, 10, portBits)
			ok = ok && err == nil
			end = append(end, byte(port>>8), byte(port))
		case "-m":
		case "-g", "-j":
			do = o
		default:
			ok = false
		}
	}
	return site(append(a, end...)), do, ok && len(a) == d.addrs/8 && (len(end) == 3 || len(end) == 0 && len(a) > 0)
}

// A chainEdit is the new content of chains by name, nil for one to be deleted.
type chainEdit map[string]*chain

// update changes what is done at sites, "" to forget one, and returns the chains that
// are different then. What is at a site already costs nothing.
func (d *dispatch) update(changes map[site]string) chainEdit {
	touched := d.differing(changes)
	if len(touched) == 0 {
		return nil
	}
	// A chain that leads to no touched site has the same rules as long as it has its name. But it comes or goes where
	// a chain on the way gets more or fewer sites: these are always next to such a chain, before or after.
	beside := make(map[string]bool)
	before := d.walk(touched, func(child string) bool {
		beside[child] = true
		return false
	})
	d.put(touched, changes)
	edit := d.walk(touched, func(child string) bool {
		known := beside[child]
		delete(beside, child)
		return !known
	})
	for name := range beside {
		edit[name] = nil
	}
	for name, c := range before {
		if next, ok := edit[name]; !ok {
			edit[name] = nil
		} else if slices.Equal(c.rules, next.rules) {
			delete(edit, name)
		}
	}
	return edit
}

// all returns the chains of the tree.
func (d *dispatch) all() chainEdit {
	return d.walk(nil, func(string) bool { return true })
}

// was returns what is done now at sites that shall change.
func (d *dispatch) was(changes map[site]string) map[site]string {
	old := make(map[site]string, len(changes))
	for k := range changes {
		old[k] = d.to[k]
	}
	return old
}

// set is update, for who does not ask about chains.
func (d *dispatch) set(changes map[site]string) { d.put(d.differing(changes), changes) }

// equals reports whether chains that were read are those of the trees.
func equals(list []*dispatch, read map[string]*chain) bool {
	n := 0
	for _, d := range list {
		for name, c := range d.all() {
			if have := read[name]; have == nil || have.print() != c.print() {
				return false
			}
			n++
		}
	}
	return n == len(read)
}

// differing returns the sites at which changes do something else than is done now, sorted.
func (d *dispatch) differing(changes map[site]string) []site {
	touched := make([]site, 0, len(changes))
	for k, what := range changes {
		if d.to[k] != what {
			touched = append(touched, k)
		}
	}
	slices.Sort(touched)
	return touched
}

// put changes sites, which are sorted.
func (d *dispatch) put(touched []site, changes map[site]string) {
	var gone, come []site
	for _, k := range touched {
		what := changes[k]
		switch _, found := d.to[k]; {
		case what == "":
			gone = append(gone, k)
			delete(d.to, k)
			continue
		case !found:
			come = append(come, k)
		}
		d.to[k] = what
	}
	d.keys = insertSorted(deleteSorted(d.keys, gone), come)
}

// walk returns the chains that lead to touched sites, the root at least, and of the others those that enter
// says true for.
func (d *dispatch) walk(touched []site, enter func(child string) bool) chainEdit {
	w := walker{d, enter, make(chainEdit)}
	w.visit(d.root, d.keys, touched)
	return w.chains
}

// A walker makes chains of a dispatch.
type walker struct {
	*dispatch
	enter  func(child string) bool
	chains chainEdit
}

// visit makes the chain called name, which is for keys, and those below it.
func (w *walker) visit(name string, keys, touched []site) {
	c := &chain{name: name, about: w.about}
	w.chains[name] = c
	if len(keys) <= leafSize {
		for _, k := range keys {
			c.rules = append(c.rules, w.match(k, len(k)*8)+" "+w.to[k])
		}
		return
	}
	for _, g := range w.groups(keys) {
		head := g.keys[0]
		if len(g.keys) == 1 {
			c.rules = append(c.rules, w.match(head, len(head)*8)+" "+w.to[head])
			continue
		}
		child := w.child(head.first(g.bits), g.bits)
		c.rules = append(c.rules, w.match(head, g.bits)+" "+goTo(child))
		if t := under(touched, head, g.bits); len(t) > 0 || w.enter(child) {
			w.visit(child, g.keys, t)
		}
	}
}

// A group is the sites of one rule of a chain: all that have the first bits of one of them.
type group struct {
	keys []site
	bits int
}

// groups splits the sites of a chain, which are too many for one rule each. A group is as large as it can be with at most
// leafSize*fanOut^n sites, for the greatest n with which there are several. So there are never more than log(sites) levels
// of chains, however the sites are spread; where they are spread evenly, there are few more than fanOut groups.
func (d *dispatch) groups(keys []site) []group {
	most := leafSize
	for most*fanOut < len(keys) {
		most *= fanOut
	}
	return d.divide(nil, keys, most)
}

// divide appends the groups of keys with at most most sites each.
func (d *dispatch) divide(to []group, keys []site, most int) []group {
	end := d.split(common(keys[0], keys[len(keys)-1]))
	for len(keys) > 0 {
		head := keys[0]
		n := sort.Search(len(keys), func(i int) bool { return common(head, keys[i]) < end })
		if n > most {
			to = d.divide(to, keys[:n], most)
		} else {
			to = append(to, group{keys[:n], end})
		}
		keys = keys[n:]
	}
	return to
}

// under returns those of sorted sites that share the first n bits with head.
func under(sites []site, head site, n int) []site {
	low := head.first(n)
	from := sort.Search(len(sites), func(i int) bool { return sites[i].first(n) >= low })
	to := from + sort.Search(len(sites)-from, func(i int) bool { return sites[from+i].first(n) > low })
	return sites[from:to]
}

// split returns how many bits tell the two halves of sites apart that have the first n in common. The protocol is never
// cut, since no rule matches half of it.
func (d *dispatch) split(n int) int {
	if n >= d.addrs && n < d.addrs+protocolBits {
		return d.addrs + protocolBits
	}
	return n + 1
}

func (d *dispatch) child(slot site, n int) string {
	return hashedNode(d.root+" "+string(slot)+" "+strconv.Itoa(n), n)
}

// match returns a match for all sites that share the first n bits with k.
func (d *dispatch) match(k site, n int) string {
	if d.addrs == 0 {
		return d.matchPort(k, n)
	}
	a, _ := netip.AddrFromSlice([]byte(k[:d.addrs/8]))
	text := "-d " + netip.PrefixFrom(a, min(n, d.addrs)).Masked().String()
	if n > d.addrs {
		text += " " + d.matchPort(k[d.addrs/8:], n-d.addrs)
	}
	return text
}

// matchPort is match for the part of a site after the address.
func (d *dispatch) matchPort(k site, n int) string {
	p := protocol(k[0])
	text := "-p " + p.String()
	if n == protocolBits {
		return text
	}
	low := uint16(k[1])<<8 | uint16(k[2])
	width := portBits + protocolBits - n
	low = low >> width << width
	text += " " + p.module() + " --dport " + strconv.Itoa(int(low))
	if width > 0 {
		text += ":" + strconv.Itoa(int(low)+(1<<width)-1)
	}
	return text
}
