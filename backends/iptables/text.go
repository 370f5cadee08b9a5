package iptables

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/vipkit/vipkit/endpoints"
)

// This file makes all text in the language of iptables; dispatch.go the matches of
// its trees. A name of a chain of ours is written as "@NAME" and gets the prefix last.

const (
	doAccept     = "-j ACCEPT"
	doDrop       = "-j DROP"
	doReject     = "-j REJECT"
	doReturn     = "-j RETURN"
	doMasquerade = "-j MASQUERADE --random-fully"

	// fromNode holds for every packet of the node's own: in PREROUTING too, where one that
	// comes back over loopback has such a source.
	fromNode = "-m addrtype --src-type LOCAL"
	toNode   = "-m addrtype --dst-type LOCAL"

	newFlow      = "-m conntrack --ctstate NEW"
	translated   = "-m conntrack --ctstate DNAT"
	invalidState = "-m conntrack --ctstate INVALID"
	knownFlow    = "-m conntrack --ctstate RELATED,ESTABLISHED"

	// strangerToLoopback is what no other host may send: with route_localnet the kernel no
	// longer drops it.
	strangerToLoopback = "-d 127.0.0.0/8 ! -s 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT"

	// maxComment is less than the 255 bytes that the kernel's match has room for.
	maxComment = 200
)

func ref(name string) string    { return "@" + name }
func call(name string) string   { return "-j " + ref(name) }
func goTo(name string) string   { return "-g " + ref(name) }
func (p protocol) only() string { return "-p " + p.String() }

// module is the match that knows a protocol's ports.
func (p protocol) module() string { return "-m " + p.String() }

func source(p netip.Prefix) string      { return "-s " + p.String() }
func destination(p netip.Prefix) string { return "-d " + p.String() }

func host(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// inInterface matches packets that come in through an interface; a name that ends in "*"
// stands for all that begin so. It compares names: the interface need not exist.
func inInterface(name string) string {
	if prefix, many := strings.CutSuffix(name, "*"); many {
		name = prefix + "+"
	}
	return "-i " + name
}

func (l *layout) markText() string  { return fmt.Sprintf("%#x", l.mark) }
func (l *layout) setMark() string   { return "-j MARK --or-mark " + l.markText() }
func (l *layout) clearMark() string { return "-j MARK --xor-mark " + l.markText() }
func (l *layout) marked() string    { return "-m mark --mark " + l.markText() + "/" + l.markText() }
func (l *layout) unmarked() string  { return "-m mark ! --mark " + l.markText() + "/" + l.markText() }

// oneOf matches one in n packets. The kernel counts in units of 2^-31, which ten decimals are
// exact enough for.
func oneOf(n int) string {
	if n == 1 {
		return ""
	}
	return "-m statistic --mode random --probability " + strconv.FormatFloat(1/float64(n), 'f', 10, 64)
}

func translate(p protocol, e *endpoints.Endpoint) string {
	return p.only() + " -j DNAT --to-destination " + e.Addr.String()
}

// recall matches a client that used an endpoint less than timeout ago, and counts from
// now on again.
func recall(list string, timeout time.Duration) string {
	seconds := max(1, int64(timeout/time.Second))
	return "-m recent --name " + list + " --update --seconds " + strconv.FormatInt(seconds, 10) + " --reap"
}

// remember takes the client down, and always matches.
func remember(list string) string { return "-m recent --name " + list + " --set" }

// words joins what is not empty.
func words(parts ...string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, " ")
}

// comment returns s as it can stand between quotes.
func comment(s string) string {
	s = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || strings.ContainsRune("\"'\\`$@", r) {
			if r == ' ' {
				return r
			}
			return '_'
		}
		return r
	}, s)
	return s[:min(len(s), maxComment)]
}

// text returns the lines that fill a chain.
func (c *chain) text(prefix string) []string {
	lines := make([]string, 0, c.size())
	name := prefix + "-" + c.name
	for _, r := range c.saved {
		lines = append(lines, "-A "+name+" "+r)
	}
	for i, r := range c.rules {
		if i == 0 {
			r = `-m comment --comment "` + c.digest() + " " + comment(c.about) + `" ` + r
		}
		lines = append(lines, "-A "+name+" "+strings.Replace(r, " @", " "+prefix+"-", 1))
	}
	return lines
}

// jumpComment marks our rules in built-in chains.
func jumpComment(prefix string) string { return prefix + " jump" }

// rule returns the jump as it follows the name of the built-in chain.
func (h hookJump) rule(prefix string) string {
	return fmt.Sprintf(`-m comment --comment "%s" -j %s-%s`, jumpComment(prefix), prefix, h.to)
}
