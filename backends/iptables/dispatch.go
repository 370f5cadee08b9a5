package iptables

import (
	"math/bits"
	"net/netip"
	"slices"
	"sort"
	"strconv"
)

// leafSize is how many rules for single sites a chain has at most. More are split.
const leafSize = 16

// fanOut is by how much smaller the groups are into which a chain is split. Four cost a packet the fewest
// rules: 2.5 on average.
const fanOut = 4

// A site is an address, a protocol and a port as bytes, so that sites sort by their
// bits and have prefixes. The address is missing in what is found by port only, and
// protocol and port in what is found by address only.
type site string

const (
	protocolBits = 8
	portBits     = 16
)

func siteOf(a netip.Addr, p protocol, port uint16) site {
	b := append(a.AsSlice(), byte(p), byte(port>>8), byte(port))
	return site(b)
}

func addrSite(a netip.Addr) site { return site(a.AsSlice()) }

// common returns the number of leading bits that a and b share.
func common(a, b site) int {
	n := min(len(a), len(b))
	for i := range n {
		if x := a[i] ^ b[i]; x != 0 {
			return i*8 + bits.LeadingZeros8(x)
		}
	}
	return n * 8
}

// first returns s with all bits but the first n cleared.
func (s site) first(n int) site {
	b := []byte(s)
	for i := range b {
		switch keep := n - i*8; {
		case keep <= 0:
			b[i] = 0
		case keep < 8:
			b[i] &^= 0xff >> keep
		}
	}
	return site(b)
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

// deleteSorted takes some keys, all of which are there, out of many. Each key moves at most once, in
// long runs: two keys of 50,000 cost no more than one.
func deleteSorted(keys, gone []site) []site {
	to, from := 0, 0
	for i, k := range gone {
		at, _ := slices.BinarySearch(keys[from:], k)
		if at += from; i == 0 {
			to = at
		} else {
			to += copy(keys[to:], keys[from:at])
		}
		from = at + 1
	}
	if from > 0 {
		to += copy(keys[to:], keys[from:])
		clear(keys[to:])
		keys = keys[:to]
	}
	return keys
}

// insertSorted puts some keys, none of which is there, among many, from the last to the first.
func insertSorted(keys, come []site) []site {
	end := len(keys) // of what has not moved yet
	keys = slices.Grow(keys, len(come))[:len(keys)+len(come)]
	for i, key := range slices.Backward(come) {
		at, _ := slices.BinarySearch(keys[:end], key)
		copy(keys[at+i+1:], keys[at:end])
		keys[at+i] = key
		end = at
	}
	return keys
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
