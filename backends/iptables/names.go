package iptables

import (
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strconv"
	"strings"

	"github.com/vipkit/vipkit/proxy/plan"
)

// Names of chains after the prefix and "-". A name has at most 28 letters
// (XT_EXTENSION_MAXNAMELEN - 1 in the kernel), which leaves nine for the prefix.
const (
	// Table nat.
	chainServices    = "SERVICES"    // from PREROUTING and OUTPUT
	chainIPs         = "IPS"         // dispatch by address, protocol and port
	chainPorts       = "PORTS"       // dispatch of NodePorts by protocol and port
	chainPostrouting = "POSTROUTING" // masquerades
	chainHairpin     = "HAIRPIN"     // masquerades what goes back to its sender

	// Table filter.
	chainInput      = "INPUT"
	chainForward    = "FORWARD"
	chainOutput     = "OUTPUT"
	chainDeny       = "DENY"        // what is for a frontend and was not translated
	chainDenyIPs    = "DENY-IPS"    // dispatch as in IPS
	chainDenyPorts  = "DENY-PORTS"  // dispatch as in PORTS
	chainCluster    = "CLUSTER"     // what is for a Service address and no port of it
	chainClusterIPs = "CLUSTER-IPS" // dispatch by address
	chainHealth     = "HEALTH"      // dispatch by port of health checks
	chainLocalnet   = "LOCALNET"    // guards loopback; says that route_localnet was set by us

	// Both.
	chainCanary = "CANARY" // empty; goes when somebody flushes the table
)

// Letters of chains that have a hash in their names. A chain names only chains with later
// letters: see section.write.
const (
	letterNode     = 'D' // node of a dispatch
	letterFirewall = 'F' // source ranges of a frontend, table nat
	letterRow      = 'R' // row of the decision table of a port
	letterCluster  = 'S' // cluster pool of a port
	letterLocal    = 'T' // local pool of a port
	letterRefuse   = 'X' // source ranges of a frontend, table filter
	letterOrigin   = 'Y' // denials of a frontend by origin
)

// hashText returns 80 bits of a digest as 16 capital letters and digits.
func hashText(s string) string {
	sum := sha256.Sum256([]byte(s))
	return base32.StdEncoding.EncodeToString(sum[:10])
}

// keyText names a Service port, as in "ns/name:port tcp".
func keyText(k plan.Key) string {
	return k.String() + " " + protocolOf(k.Protocol).String()
}

// hashed returns a chain's name without the prefix.
func hashed(letter byte, what string) string { return string(letter) + "-" + hashText(what) }

// hashedNode is hashed for a node of a dispatch. Nodes further down have later names.
func hashedNode(what string, level int) string {
	const letters = 'Z' - 'A' + 1
	name := hashed(letterNode, what)
	return name[:2] + string([]byte{'A' + byte(level/letters), 'A' + byte(level%letters)}) + name[4:]
}

// isHashed reports whether a chain is one of those.
func isHashed(name string) bool { return len(name) > 1 && name[1] == '-' }

// A chain is a chain of a table with its rules as text, as they follow "-A NAME".
type chain struct {
	name  string // without the prefix and "-"
	about string // what it is for, in words
	rules []string

	// Of a chain that was read, its rules are as iptables-save prints them.
	wasRead bool
	saved   []string

	known string // the print, if it was asked for or read
}

// print is what a chain is recognised by: what its first rule says of it, its digest and its purpose, and the
// number of rules. It is "" if there are none.
func (c *chain) print() string {
	if c.known == "" && !c.wasRead {
		c.known = printOf(c.digest(), len(c.rules), comment(c.about))
	}
	return c.known
}

func printOf(digest string, n int, about string) string {
	if n == 0 {
		return ""
	}
	return digest + "/" + strconv.Itoa(n) + " " + about
}

// digest is that of all rules, in which the comment that carries it has no part.
func (c *chain) digest() string {
	if digest, _, ok := strings.Cut(c.known, "/"); ok {
		return digest
	}
	d := newDigester("")
	for _, r := range c.rules {
		d.add(strings.Fields(r)) // nothing that we write is quoted, but for comments
	}
	return d.text()
}

// equal reports whether chains have the same rules.
func (c *chain) equal(o *chain) bool {
	if c.wasRead || o.wasRead {
		return c.print() == o.print()
	}
	return c.about == o.about && slices.Equal(c.rules, o.rules)
}

// size returns the number of rules.
func (c *chain) size() int { return max(len(c.rules), len(c.saved)) }

// alteredMark ends the print of a chain whose rules are not those of the digest that it carries.
const alteredMark = " altered"

func (c *chain) isAltered() bool { return strings.HasSuffix(c.known, alteredMark) }
