package iptables

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A ruleset is what Render returns for one family, as the kernel would follow it.
type ruleset map[string][]*rule // "TABLE CHAIN" -> rules

// A rule is one line with its matches as functions.
type rule struct {
	text    string
	matches []func(*traveller) bool
	do      func(*traveller) // before the target, if all match
	target  string
	jump    bool // to a chain, and back
	arg     string
}

// A traveller is the first packet of a flow on its way.
type traveller struct {
	src, dst netip.Addr
	proto    string
	port     int
	iface    string
	local    []netip.Addr // addresses of the node
	known    bool         // not the first packet of its flow
	invalid  bool
	dnat     bool // as connection tracking takes it down
	sent     bool // to an endpoint
	mark     uint64

	choice  int             // which of the random matches is the first to hold
	chosen  bool            // it came
	recent  map[string]bool // lists that know the client
	noted   []string        // lists that took it down
	masq    bool
	passed  int // rules that were looked at
	verdict string
}

func (p *traveller) isLocal(a netip.Addr) bool {
	return a.IsLoopback() || slices.Contains(p.local, a)
}

// parseRules reads the input of iptables-restore for a family by the name of its program.
func parseRules(tb testing.TB, text, program string) ruleset {
	tb.Helper()
	_, text, _ = strings.Cut(text, "# "+program+"-restore --noflush\n")
	text, _, _ = strings.Cut(text, "\n# ")
	set := make(ruleset)
	var table string
	for line := range strings.Lines(text) {
		f := splitQuoted(strings.TrimSpace(line))
		switch {
		case len(f) == 0 || f[0] == "COMMIT":
		case f[0][0] == '*':
			table = f[0][1:]
		case f[0][0] == ':':
			set[table+" "+f[0][1:]] = nil
		case f[0] == "-A":
			k := table + " " + f[1]
			set[k] = append(set[k], parseRule(tb, line, f[2:]))
		case f[0] == "-I" && f[2] == "1":
			k := table + " " + f[1]
			set[k] = append([]*rule{parseRule(tb, line, f[3:])}, set[k]...)
		default:
			tb.Fatalf("line %q", line)
		}
	}
	return set
}

func parseRule(tb testing.TB, text string, f []string) *rule {
	tb.Helper()
	r := &rule{text: text}
	not := false
	for len(f) > 0 {
		word := f[0]
		arg := func() string { f = f[1:]; return f[0] }
		switch word {
		case "!":
			not = true
			f = f[1:]
			continue
		case "-m", "--comment", "--mode", "--seconds":
			arg()
		case "--rsource", "--reap", "--random-fully":
		case "-j", "-g":
			r.jump, r.target = word == "-j", arg()
		case "--to-destination", "--or-mark", "--xor-mark":
			r.arg = arg()
		case "--name":
			r.recent(arg(), f[1])
			f = f[1:]
		default:
			m := match(tb, word, arg())
			if not {
				positive := m
				m = func(p *traveller) bool { return !positive(p) }
			}
			r.matches = append(r.matches, m)
		}
		not = false
		f = f[1:]
	}
	return r
}

// recent is the match of this name: looking the client up, or taking it down.
func (r *rule) recent(list, mode string) {
	if mode == "--update" {
		r.matches = append(r.matches, func(p *traveller) bool { return p.recent[list] })
		return
	}
	r.do = func(p *traveller) { p.noted = append(p.noted, list) }
}

// addressMatch reads ADDRESS/LENGTH or ADDRESS/MASK, any mask.
func addressMatch(arg string) func(netip.Addr) bool {
	if prefix, err := netip.ParsePrefix(arg); err == nil {
		return prefix.Contains
	}
	value, mask, _ := strings.Cut(arg, "/")
	want, bits := netip.MustParseAddr(value).AsSlice(), netip.MustParseAddr(mask).AsSlice()
	return func(a netip.Addr) bool {
		have := a.AsSlice()
		for i := range have {
			have[i] &= bits[i]
		}
		return slices.Equal(have, want)
	}
}

func match(tb testing.TB, word, arg string) func(*traveller) bool {
	tb.Helper()
	switch word {
	case "-s", "-d":
		in := addressMatch(arg)
		if word == "-s" {
			return func(p *traveller) bool { return in(p.src) }
		}
		return func(p *traveller) bool { return in(p.dst) }
	case "-p":
		return func(p *traveller) bool { return p.proto == arg }
	case "--dport":
		from, to, many := strings.Cut(arg, ":")
		if !many {
			to = from
		}
		low, high := number(tb, from), number(tb, to)
		return func(p *traveller) bool { return p.port >= int(low) && p.port <= int(high) }
	case "-i":
		prefix, many := strings.CutSuffix(arg, "+")
		return func(p *traveller) bool { return p.iface == arg || many && strings.HasPrefix(p.iface, prefix) }
	case "--src-type":
		return func(p *traveller) bool { return p.isLocal(p.src) }
	case "--dst-type":
		return func(p *traveller) bool { return p.isLocal(p.dst) }
	case "--ctstate":
		return func(p *traveller) bool { return slices.ContainsFunc(strings.Split(arg, ","), p.inState) }
	case "--mark":
		value, mask, _ := strings.Cut(arg, "/")
		v, m := number(tb, value), number(tb, mask)
		return func(p *traveller) bool { return p.mark&m == v }
	case "--probability":
		return func(p *traveller) bool {
			if p.chosen {
				return false
			}
			p.choice--
			p.chosen = p.choice < 0
			return p.chosen
		}
	}
	tb.Fatalf("match %q", word)
	return nil
}

func number(tb testing.TB, s string) uint64 {
	tb.Helper()
	n, err := strconv.ParseUint(s, 0, 32)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

func (p *traveller) inState(state string) bool {
	switch state {
	case "NEW":
		return !p.known && !p.invalid
	case "RELATED", "ESTABLISHED":
		return p.known
	case "DNAT":
		return p.dnat
	default:
		return p.invalid
	}
}

// enter sends a packet through a chain. It returns true when the table is done with it, and
// panics at what the kernel would refuse.
func (set ruleset) enter(table, name string, p *traveller) (done bool) {
	rules, ok := set[table+" "+name]
	if !ok && strings.Contains(name, "-") {
		panic(fmt.Sprintf("no chain %s in table %s", name, table))
	}
	for _, r := range rules {
		p.passed++
		if slices.ContainsFunc(r.matches, func(m func(*traveller) bool) bool { return !m(p) }) {
			continue
		}
		if r.do != nil {
			r.do(p)
		}
		switch r.target {
		case "RETURN":
			return false
		case "ACCEPT":
			return true
		case "DROP", "REJECT":
			p.verdict = r.target
			return true
		case "MASQUERADE":
			p.masq = true
			return true
		case "MARK":
			p.markBy(r)
		case "DNAT":
			to := netip.MustParseAddrPort(r.arg)
			p.sent, p.dnat = true, to != netip.AddrPortFrom(p.dst, uint16(p.port)) // as the kernel has it
			p.dst, p.port = to.Addr(), int(to.Port())
			return true
		default:
			if set.enter(table, r.target, p) {
				return true
			}
			if !r.jump {
				return false
			}
		}
	}
	return false
}

func (p *traveller) markBy(r *rule) {
	v, err := strconv.ParseUint(r.arg, 0, 32)
	if err != nil {
		panic(err)
	}
	if strings.Contains(r.text, "--xor-mark") {
		p.mark ^= v
		return
	}
	p.mark |= v
}

// travel follows a packet through the hooks that it passes.
func (set ruleset) travel(p *traveller, fromNode bool) {
	hooks := []string{"nat PREROUTING"}
	if fromNode {
		hooks = []string{"nat OUTPUT", "filter OUTPUT"}
	}
	for _, h := range hooks {
		table, name, _ := strings.Cut(h, " ")
		set.enter(table, name, p)
	}
	switch {
	case p.verdict != "":
		return
	case p.isLocal(p.dst):
		set.enter("filter", "INPUT", p)
	case !fromNode:
		set.enter("filter", "FORWARD", p)
	}
	if p.verdict == "" && (fromNode || !p.isLocal(p.dst)) {
		set.enter("nat", "POSTROUTING", p)
	}
}
