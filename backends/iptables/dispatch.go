package iptables

import (
	"math/bits"
	"net/netip"
	"slices"
	"sort"
	"strconv"
)

// leafSize is how many rules for single sites a chain has at most. More are split by the
// next two bits.
const leafSize = 16

// stride is the number of bits by which a chain is split. Two cost a packet the fewest
// rules: 2.5 on average for a choice of four.
const stride = 2

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
// sites alone, not from the order in which they came: a chain with more than leafSize sites
// is split by the first pair of bits in which they differ. So a change of one site
// touches only the chains on the way to it.
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
	edit := make(chainEdit)
	touched := d.differing(changes)
	if len(touched) == 0 && len(changes) > 0 {
		return edit
	}
	// What leads to no touched site stays as it is, but for a chain that gets or loses its
	// only sibling: it comes or goes, and its children change their parent. So look
	// for what may go one level below the way to touched sites, and for what is there then two.
	w := walker{dispatch: d, below: 1, emit: func(c *chain) { edit[c.name] = nil }}
	w.walk(d.root, d.keys, touched, w.below)
	d.put(touched, changes)
	w.below, w.emit = 2, func(c *chain) { edit[c.name] = c }
	w.walk(d.root, d.keys, touched, w.below)
	return edit
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

// A walker visits chains of a dispatch.
type walker struct {
	*dispatch
	below int // how many levels it goes down from the way to touched sites
	emit  func(*chain)
}

// walk emits the chain called name, which is for keys, and those below it: all that lead to
// touched sites, and others for some levels more.
func (w *walker) walk(name string, keys, touched []site, levels int) {
	c := &chain{name: name, about: w.about}
	defer w.emit(c)
	if len(keys) <= leafSize {
		for _, k := range keys {
			c.rules = append(c.rules, w.match(k, len(k)*8)+" "+w.to[k])
		}
		return
	}
	end := w.split(common(keys[0], keys[len(keys)-1]))
	for len(keys) > 0 {
		head := keys[0]
		n := sort.Search(len(keys), func(i int) bool { return common(head, keys[i]) < end })
		if n == 1 {
			c.rules = append(c.rules, w.match(head, len(head)*8)+" "+w.to[head])
			keys = keys[1:]
			continue
		}
		child := w.child(head.first(end), end)
		c.rules = append(c.rules, w.match(head, end)+" "+goTo(child))
		if t := under(touched, head, end); len(t) > 0 {
			w.walk(child, keys[:n], t, w.below)
		} else if levels > 0 {
			w.walk(child, keys[:n], nil, levels-1)
		}
		keys = keys[n:]
	}
}

// under returns those of sorted sites that share the first n bits with head.
func under(sites []site, head site, n int) []site {
	low := head.first(n)
	from := sort.Search(len(sites), func(i int) bool { return sites[i].first(n) >= low })
	to := from + sort.Search(len(sites)-from, func(i int) bool { return sites[from+i].first(n) > low })
	return sites[from:to]
}

// split returns how many bits tell the groups of sites apart that have the first n in
// common. Groups begin at even bits, so that they stay the same when sites come in that
// share less, and the protocol is never cut, since no rule matches half of it.
func (d *dispatch) split(n int) int {
	if n >= d.addrs && n < d.addrs+protocolBits {
		return d.addrs + protocolBits
	}
	return n - n%stride + stride
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
