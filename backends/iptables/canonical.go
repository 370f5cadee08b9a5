package iptables

import (
	"crypto/sha256"
	"encoding/base32"
	"hash"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// A digester makes the digest of a chain from its rules, one after the other: the same from rules as we write them
// and as iptables-save prints them.
type digester struct {
	prefix string // of chains in printed rules, with the "-"; "" for rules as we write them
	sum    hash.Hash
}

func newDigester(prefix string) digester { return digester{prefix, sha256.New()} }

// add takes up a rule, given as the words after "-A NAME".
func (d digester) add(rule []string) {
	for _, o := range canonical(rule, d.prefix) {
		_, _ = d.sum.Write([]byte(o)) // never fails
		_, _ = d.sum.Write([]byte{'\n'})
	}
	_, _ = d.sum.Write([]byte{0})
}

// text returns 80 bits of the digest as 16 capital letters and digits.
func (d digester) text() string {
	return base32.StdEncoding.EncodeToString(d.sum.Sum(nil)[:10])
}

// canonical returns the options of a rule, each with its values, sorted, and without what the programs add of
// themselves. Rules that mean the same may differ in it; rules that mean something else may not be equal.
func canonical(words []string, prefix string) []string {
	var out []string
	for len(words) > 0 {
		n := optionLength(words)
		if o := canonicalOption(words[:n], prefix); o != "" {
			out = append(out, o)
		}
		words = words[n:]
	}
	slices.Sort(out)
	return out
}

// optionLength returns how many words belong to the first option: "!" before it, and values after it.
func optionLength(words []string) int {
	n := 1
	if words[0] == "!" && len(words) > 1 {
		n = 2
	}
	for n < len(words) && words[n] != "!" && words[n][:min(1, len(words[n]))] != "-" {
		n++
	}
	return n
}

// canonicalOption returns an option as text, "" if it says nothing.
func canonicalOption(words []string, prefix string) string {
	if words[0] == "!" && len(words) > 1 {
		if o := canonicalOption(words[1:], prefix); o != "" {
			return "! " + o
		}
		return strings.Join(words, " ") // not a default says much
	}
	if len(words) == 1 {
		if words[0] == "--rsource" { // the default of match recent
			return ""
		}
		return words[0]
	}
	name, value := words[0], words[1]
	if ours, ok := strings.CutPrefix(value, prefix); ok && prefix != "" {
		value = ref(ours)
	}
	if len(words) > 2 {
		return strings.Join(words, " ")
	}
	return canonicalValue(name, value)
}

// canonicalValue is canonicalOption for an option with one value.
func canonicalValue(name, value string) string {
	switch {
	case saysNothing(name, value):
		return ""
	case name == "--or-mark":
		return "--set-xmark " + value + "/" + value
	case name == "--xor-mark":
		return "--set-xmark " + value + "/0x0"
	case name == "--probability":
		value = inKernelUnits(value)
	case name == "-s" || name == "-d":
		value = canonicalPrefix(value)
	case name == "--to-destination":
		if to, err := netip.ParseAddrPort(value); err == nil {
			value = to.String()
		}
	}
	return name + " " + value
}

// saysNothing tells the options that the programs print although they are defaults, or do not print although
// they were given.
func saysNothing(name, value string) bool {
	switch name {
	case "-s", "-d":
		return value == "0.0.0.0/0" || value == "::/0"
	case "--reject-with":
		return value == "icmp-port-unreachable" || value == "icmp6-port-unreachable"
	case "--mask": // of match recent: all bits of the address
		return value == "255.255.255.255" || value == "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"
	}
	return false
}

// canonicalPrefix returns an address and the mask or length after it in Go's spelling: C's writes ::128.0.0.0 for
// ::8000:0.
func canonicalPrefix(value string) string {
	parts := strings.Split(value, "/")
	for i, p := range parts {
		if a, err := netip.ParseAddr(p); err == nil {
			parts[i] = a.String()
		}
	}
	return strings.Join(parts, "/")
}

// inKernelUnits returns a probability as the kernel keeps it: how many digits are printed differs.
func inKernelUnits(value string) string {
	p, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return value
	}
	return strconv.FormatInt(int64(math.Round(p*(1<<31))), 10)
}
